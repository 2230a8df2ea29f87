// Command floor times the kernel floor of a run: the calls of BLAS, LAPACK and vector functions that it can't do without,
// of the same shapes and as many, on as many cores, with every value in memory before the clock starts, and nothing else.
// What a run takes beyond that is its own. With -own the products with few columns are by the program's own loops, which a BLAS
// is slower than.
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

// shape is what decides the calls of a run.
type shape struct {
	train, test      int // rows
	raw, inputs      int // features, principal components
	columns, classes int // of a block
	message          int // rows of one
	gramRows         int // behind a stage's Gram matrix
	passes           []int
	softmax, own     bool
}

// tile is how many rows go through a pass together.
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
	flag.IntVar(&s.gramRows, "gram-rows", 60_000, "rows behind a Gram matrix")
	passes := flag.String("passes", "12,12,12,12,12,12,12,12,12,12", "passes of each stage")
	predict := flag.Bool("predict", false, "only the products of predicting with as many stages")
	flag.BoolVar(&s.own, "own", false, "the products with few columns by the program's own loops, not the BLAS")
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
	blas, err := kernel.Open(os.Getenv("STAGEWISE_BLAS"))
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
	if err := out.Encode(map[string]any{"blas": blas.Name(), "vector": blas.Vector(), "cores": runtime.GOMAXPROCS(0), "seconds": seconds}); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// floor is the memory that the calls work on.
type floor struct {
	shape
	blas     *kernel.BLAS
	messages []*message

	basis, directions kernel.Dense
	offsets           []float32
	weights           kernel.Weights
	seconds           map[string]float64 // by part
}

type message struct {
	raw, inputs, block, score, prediction kernel.Dense
	logs                                  []float64
	first                                 []int32
	ones                                  []float32
	train                                 bool
}

// own is what one goroutine has.
type own struct {
	gram, wide kernel.Dense
	cross      kernel.Cross
	// The cross moment of bare calls: Rᵀ·Z is one of BLAS's shapes that copies the least.
	residuals, transposed kernel.Dense // classes × tile, classes × columns
}

func newFloor(s shape, blas *kernel.BLAS) *floor {
	f := &floor{shape: s, blas: blas, seconds: map[string]float64{}}
	add := func(rows int, train bool) {
		for ; rows > 0; rows -= s.message {
			n := min(rows, s.message)
			m := &message{
				raw: filled(n, s.raw, 1), inputs: filled(n, s.inputs, 1), block: filled(n, s.columns, 1),
				score: filled(n, s.classes, 0.1), prediction: filled(n, s.classes, 1), logs: make([]float64, n), first: make([]int32, n), ones: make([]float32, n), train: train,
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

// filled has values like noise: of zeros and denormal numbers products take another time.
func filled(rows, columns int, scale float64) kernel.Dense {
	d := kernel.NewDense(rows, columns)
	x := uint64(rows)<<32 | uint64(columns)
	for i := range d.Data {
		x = x*6364136223846793005 + 1442695040888963407
		d.Data[i] = float32((float64(x>>11)/(1<<53) - 0.5) * scale)
	}
	return d
}

// each runs f over all messages on all cores, and adds the time to a part's.
func (f *floor) each(part string, all []*own, do func(*own, int, *message)) {
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

func (f *floor) run() {
	all := make([]*own, runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = &own{gram: kernel.NewDense(f.columns, f.columns), wide: kernel.NewDense(f.raw, f.raw)}
		all[i].cross.Begin(f.columns, f.classes)
		all[i].residuals, all[i].transposed = filled(f.classes, tile, 1), kernel.NewDense(f.classes, f.columns)
	}
	covariance, second := definite(f.raw), definite(f.columns)
	cross, step := mat.NewDense(f.columns, f.classes, nil), mat.NewDense(f.columns, f.classes, nil)
	began := time.Now()
	f.each("second moments", all, func(o *own, _ int, m *message) {
		if m.train {
			f.blas.Gram(o.wide, m.raw, true)
		}
	})
	f.alone("eigenvectors", func() { new(mat.EigenSym).Factorize(covariance, true) })
	f.each("projection", all, func(_ *own, _ int, m *message) { f.blas.Mul(m.inputs, m.raw, f.basis, false) })
	for _, passes := range f.passes {
		var factor mat.Cholesky
		f.each("expansion", all, func(_ *own, _ int, m *message) { f.expand(m) })
		f.each("gram", all, func(o *own, i int, m *message) {
			if m.train && (i+1)*f.gramRows/f.train > i*f.gramRows/f.train {
				f.blas.Gram(o.gram, m.block, true)
			}
		})
		f.alone("solves", func() { factor.Factorize(second) })
		for pass := range passes {
			f.each("passes", all, func(o *own, _ int, m *message) { f.pass(o, m, pass > 0, m.train) })
			all[0].cross.AddTo(cross.RawMatrix().Data)
			f.alone("solves", func() {
				if err := factor.SolveTo(step, cross); err != nil {
					panic(err)
				}
			})
		}
		f.each("publication", all, func(o *own, _ int, m *message) { f.pass(o, m, true, false) })
	}
	f.seconds["total"] = time.Since(began).Seconds()
}

// predict is the matrix products of predicting all rows.
func (f *floor) predict() {
	all := make([]*own, runtime.GOMAXPROCS(0))
	began := time.Now()
	f.each("projection", all, func(_ *own, _ int, m *message) { f.blas.Mul(m.inputs, m.raw, f.basis, false) })
	for range f.passes {
		f.each("products", all, func(_ *own, _ int, m *message) {
			for from := 0; from < m.inputs.Rows; from += tile {
				to := min(from+tile, m.inputs.Rows)
				block := m.block.Slice(from, to)
				f.blas.Mul(block, m.inputs.Slice(from, to), f.directions, false)
				f.blas.MulAdd(m.prediction.Slice(from, to), block, f.weights)
			}
		})
	}
	f.seconds["total"] = time.Since(began).Seconds()
}

// definite is a symmetric matrix of that size which has a Cholesky factor.
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

func (f *floor) expand(m *message) {
	for from := 0; from < m.inputs.Rows; from += tile {
		to := min(from+tile, m.inputs.Rows)
		block := m.block.Slice(from, to)
		f.blas.Mul(block, m.inputs.Slice(from, to), f.directions, false)
		kernel.Cosine(block, f.offsets, float32(math.Sqrt(2/float64(f.columns))))
	}
}

// pass is the scores and predictions of a message, and its cross moment.
func (f *floor) pass(o *own, m *message, weights, cross bool) {
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

func (f *floor) alone(part string, do func()) {
	began := time.Now()
	do()
	f.seconds[part] += time.Since(began).Seconds()
}
