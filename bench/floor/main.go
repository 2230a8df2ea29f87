// Command floor measures the kernel floor of a run: only the calls of BLAS, LAPACK and vector functions that the run needs, with
// the same shapes, as often and on as many cores, with all values in memory before the clock starts. The rest of a run's time
// is overhead. With -own the program's own loops do the products that the program uses them for, as they are faster than a BLAS.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/kernel"
)

// shape determines the calls of a run.
type shape struct {
	train, test      int   // rows
	raw, inputs      int   // features, principal components
	columns, classes int   // of a block, of the scores
	message          int   // rows of a message
	gramRows         int   // rows that a stage's Gram matrix is summed over
	passes           []int // of each stage
	softmax          bool  // the link is softmax, otherwise identity
	own              bool  // see the flag -own

	patches patches
}

// tile is how many rows a pass processes at a time.
const tile = 64

func main() {
	var s shape
	flag.IntVar(&s.train, "train", 60_000, "training rows")
	flag.IntVar(&s.test, "test", 10_000, "test rows")
	flag.IntVar(&s.raw, "raw", 784, "features")
	flag.IntVar(&s.inputs, "inputs", 50, "principal components")
	flag.IntVar(&s.columns, "columns", 1024, "columns of a block")
	flag.IntVar(&s.classes, "classes", 10, "classes")
	flag.IntVar(&s.message, "message", 1024, "rows of a message")
	flag.IntVar(&s.gramRows, "gram-rows", 60_000, "rows that a Gram matrix is summed over")
	passes := flag.String("passes", "12,12,12,12,12,12,12,12,12,12", "passes of each stage")
	predict := flag.Bool("predict", false, "only the products of a prediction with as many stages as -passes has")
	flag.BoolVar(&s.own, "own", false, "do products by the program's own loops where the program does, instead of the BLAS")
	flag.IntVar(&s.patches.positions, "positions", 0, "features of kind patches: positions of patches in an image. 0: random Fourier features")
	flag.IntVar(&s.patches.values, "patch-values", 81, "with -positions: values of a patch")
	flag.IntVar(&s.patches.filters, "filters", 128, "with -positions: filters")
	link := flag.String("link", "softmax", "softmax or identity")
	flag.Parse()
	for _, n := range strings.Split(*passes, ",") {
		v, err := strconv.Atoi(n)
		if err != nil {
			fmt.Fprintln(os.Stderr, "floor: -passes:", err)
			os.Exit(2)
		}
		s.passes = append(s.passes, v)
	}
	s.softmax = *link == "softmax"
	err := kernel.UseVector(os.Getenv("STAGEWISE_VECTOR"))
	var blas *kernel.BLAS
	if err == nil {
		blas, err = kernel.Open(os.Getenv("STAGEWISE_BLAS"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
	blas.UseForSolves()
	f := newFloor(s, blas)
	if *predict {
		f.predict()
	} else {
		f.run()
	}
	seconds := f.seconds
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"blas": blas.Name(), "vector": blas.Vector(), "cores": runtime.GOMAXPROCS(0),
		"seconds": seconds}); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// floor holds the operands of the calls.
type floor struct {
	shape
	blas     *kernel.BLAS
	messages []*message

	basis, directions kernel.Dense
	offsets           []float32
	weights           kernel.Weights
	seconds           map[string]float64 // by part of the run
}

// message holds the matrices of one message, a row for each example.
type message struct {
	raw, inputs, block, score, prediction kernel.Dense
	logs                                  []float64
	first                                 []int32
	ones                                  []float32
	train                                 bool
}

// sums are the sums of one goroutine.
type sums struct {
	gram, wide kernel.Dense
	cross      kernel.Cross
	// Operands of the cross moment by the BLAS, as Rᵀ·Z, the shape for which a BLAS copies least.
	residuals, transposed kernel.Dense // classes × tile, classes × columns
	products              products
}

func newFloor(s shape, blas *kernel.BLAS) *floor {
	f := &floor{shape: s, blas: blas, seconds: map[string]float64{}}
	add := func(rows int, train bool) {
		for ; rows > 0; rows -= s.message {
			n := min(rows, s.message)
			m := &message{
				raw: filled(n, s.raw, 1), inputs: filled(n, s.inputs, 1), block: filled(n, s.columns, 1),
				score: filled(n, s.classes, 0.1), prediction: filled(n, s.classes, 1), logs: make([]float64, n), first: make([]int32, n),
				ones: make([]float32, n), train: train,
			}
			for i := range m.ones {
				m.ones[i] = 1
			}
			f.messages = append(f.messages, m)
		}
	}
	add(s.train, true)
	add(s.test, false)
	f.basis, f.directions = filled(s.raw, s.inputs, 0.05), filled(s.inputs, s.columns, 0.3)
	f.offsets = filled(1, s.columns, 6).Data
	if f.weights = (kernel.Weights{Dense: filled(s.columns, s.classes, 0.01)}); s.own {
		f.weights = kernel.NewWeights(f.weights.Dense)
	}
	return f
}

// filled returns a matrix of pseudo-random values. Products of zeros and denormal numbers would take another time.
func filled(rows, columns int, scale float64) kernel.Dense {
	d := kernel.NewDense(rows, columns)
	x := uint64(rows)<<32 | uint64(columns)
	for i := range d.Data {
		x = x*6364136223846793005 + 1442695040888963407
		d.Data[i] = float32((float64(x>>11)/(1<<53) - 0.5) * scale)
	}
	return d
}

// each calls do for all messages, with one goroutine for each of all, and adds the time to the part's.
func (f *floor) each(part string, all []*sums, do func(*sums, int, *message)) {
	began := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	for _, o := range all {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(f.messages); i = int(next.Add(1)) - 1 {
				do(o, i, f.messages[i])
			}
		})
	}
	group.Wait()
	f.seconds[part] += time.Since(began).Seconds()
}

// run makes the calls of a training run.
func (f *floor) run() {
	all := make([]*sums, runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = &sums{gram: kernel.NewDense(f.columns, f.columns), wide: kernel.NewDense(f.raw, f.raw), products: newProducts(f.patches)}
		all[i].cross.Begin(f.columns, f.classes)
		all[i].residuals, all[i].transposed = filled(f.classes, tile, 1), kernel.NewDense(f.classes, f.columns)
	}
	covariance, second := definite(f.raw), definite(f.columns)
	cross, step := mat.NewDense(f.columns, f.classes, nil), mat.NewDense(f.columns, f.classes, nil)
	began := time.Now()
	if f.patches.positions == 0 {
		f.prepare(all, covariance)
	}
	for _, passes := range f.passes {
		var factor mat.Cholesky
		f.each("expansion", all, func(o *sums, _ int, m *message) {
			if f.patches.positions > 0 {
				o.products.multiply(f.blas, m.block.Rows)
			} else {
				f.expand(m)
			}
		})
		f.each("gram", all, func(o *sums, i int, m *message) {
			if m.train && (i+1)*f.gramRows/f.train > i*f.gramRows/f.train {
				f.blas.Gram(o.gram, m.block, true)
			}
		})
		f.alone("solves", func() { factor.Factorize(second) })
		for pass := range passes {
			f.each("passes", all, func(o *sums, _ int, m *message) { f.pass(o, m, pass > 0, m.train) })
			all[0].cross.AddTo(cross.RawMatrix().Data)
			f.alone("solves", func() {
				if err := factor.SolveTo(step, cross); err != nil {
					panic(err)
				}
			})
		}
		f.each("publication", all, func(o *sums, _ int, m *message) { f.pass(o, m, true, false) })
	}
	f.seconds["total"] = time.Since(began).Seconds()
}

// prepare makes the calls for the principal components.
func (f *floor) prepare(all []*sums, covariance *mat.SymDense) {
	f.each("second moments", all, func(o *sums, _ int, m *message) {
		if m.train {
			f.blas.Gram(o.wide, m.raw, true)
		}
	})
	f.alone("eigenvectors", func() { new(mat.EigenSym).Factorize(covariance, true) })
	f.each("projection", all, func(_ *sums, _ int, m *message) { f.blas.Mul(m.inputs, m.raw, f.basis, false) })
}

// predict makes the matrix products of a prediction for all rows.
func (f *floor) predict() {
	all := make([]*sums, runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = &sums{products: newProducts(f.patches)}
	}
	began := time.Now()
	if f.patches.positions == 0 {
		f.each("projection", all, func(_ *sums, _ int, m *message) { f.blas.Mul(m.inputs, m.raw, f.basis, false) })
	}
	for range f.passes {
		f.each("products", all, func(o *sums, _ int, m *message) {
			for from := 0; from < m.inputs.Rows; from += tile {
				to := min(from+tile, m.inputs.Rows)
				block := m.block.Slice(from, to)
				if f.patches.positions > 0 {
					o.products.multiply(f.blas, to-from)
				} else {
					f.project(block, m.inputs.Slice(from, to))
				}
				f.blas.MulAdd(m.prediction.Slice(from, to), block, f.weights)
			}
		})
	}
	f.seconds["total"] = time.Since(began).Seconds()
}

// definite returns a positive definite n×n matrix.
func definite(n int) *mat.SymDense {
	a := filled(n, n, 1/math.Sqrt(float64(n)))
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i {
			s.SetSym(i, j, float64(a.Data[i*n+j]))
		}
		s.SetSym(i, i, 4)
	}
	return s
}

// project multiplies inputs by the directions.
func (f *floor) project(block, inputs kernel.Dense) {
	f.blas.Mul(block, inputs, f.directions, false)
}

// expand computes the block of a message.
func (f *floor) expand(m *message) {
	for from := 0; from < m.inputs.Rows; from += tile {
		to := min(from+tile, m.inputs.Rows)
		block := m.block.Slice(from, to)
		f.project(block, m.inputs.Slice(from, to))
		kernel.Cosine(block, f.offsets, float32(math.Sqrt(2/float64(f.columns))))
	}
}

// pass computes the scores (with weights) and predictions of a message, and adds its cross moment (with cross).
func (f *floor) pass(o *sums, m *message, weights, cross bool) {
	for from := 0; from < m.inputs.Rows; from += tile {
		to := min(from+tile, m.inputs.Rows)
		block, p := m.block.Slice(from, to), m.prediction.Slice(from, to)
		copy(p.Data, m.score.Slice(from, to).Data)
		if weights {
			f.blas.MulAdd(p, block, f.weights)
		}
		if f.softmax {
			kernel.SoftmaxRows(p, m.logs[from:to], m.first[from:to])
		}
		switch {
		case cross && f.own:
			o.cross.Add(f.blas, block, p, m.ones[from:to])
		case cross:
			r := o.residuals
			r.Reshape(f.classes, to-from)
			f.blas.Mul(o.transposed, r, block, true)
		}
	}
}

// alone calls do on one core, and adds the time to the part's.
func (f *floor) alone(part string, do func()) {
	began := time.Now()
	do()
	f.seconds[part] += time.Since(began).Seconds()
}

// patches determines the products of features of kind patches. All are 0 for other features.
type patches struct {
	positions int // of patches in an image
	values    int // of a patch
	filters   int
}

// products are the operands of the products of one image.
type products struct {
	raw, white, responses kernel.Dense // positions × values, the same, positions × filters
	whitening, filters    kernel.Dense // values × values, values × filters
}

func newProducts(s patches) products {
	return products{
		raw: filled(s.positions, s.values, 1), white: kernel.NewDense(s.positions, s.values), responses: kernel.NewDense(s.positions, s.filters),
		whitening: filled(s.values, s.values, 0.3), filters: filled(s.values, s.filters, 0.3),
	}
}

// multiply makes the products of so many images: it whitens their patches, and multiplies them by the filters.
func (p *products) multiply(blas *kernel.BLAS, images int) {
	for range images {
		blas.Mul(p.white, p.raw, p.whitening, false)
		blas.Mul(p.responses, p.white, p.filters, false)
	}
}
