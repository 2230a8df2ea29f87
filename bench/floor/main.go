// Command floor measures the kernel floor of a run: only the calls of BLAS, LAPACK and vector functions that the run needs, with
// the same shapes, as often and on as many cores, with all values in memory before the clock starts. The rest of a run's time
// is overhead. With -own the program's own loops do the products that the program uses them for, as they are faster than a BLAS.
package main

import (
	"cmp"
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

const (
	raw, inputs = 784, 50 // features of MNIST, principal components
	message     = 1024    // rows of a message
	tile        = 64      // rows that a pass processes at a time

	positions, values, filters = 400, 81, 128 // of features of kind patches: places in an image, values of a patch, filters
)

// floor has the shape of a run, and the operands of its calls that all goroutines read.
type floor struct {
	train, test      int   // rows
	columns, classes int   // of a block, of the scores
	gramRows         int   // rows that a stage's Gram matrix is summed over
	passes           []int // of each stage
	link             string
	own, patches     bool // see the flags

	blas                                                   *kernel.BLAS
	messages                                               []*rows
	basis, directions, patch, whitening, filters, residual kernel.Dense
	offsets                                                []float32
	weights                                                kernel.Weights
}

// rows holds the matrices of one message, a row for each example.
type rows struct {
	raw, inputs, block, score, prediction kernel.Dense
	logs                                  []float64
	first                                 []int32
	ones                                  []float32
	train                                 bool
}

// sums are what one goroutine writes to.
type sums struct {
	gram, wide       kernel.Dense
	cross            kernel.Cross
	transposed       kernel.Dense // the cross moment by the BLAS, as Rᵀ·Z, the shape for which a BLAS copies least
	white, responses kernel.Dense // of the patches of an image
}

func main() {
	f := &floor{}
	flag.IntVar(&f.train, "train", 60_000, "training rows")
	flag.IntVar(&f.test, "test", 10_000, "test rows")
	flag.IntVar(&f.columns, "columns", 1024, "columns of a block")
	flag.IntVar(&f.classes, "classes", 10, "classes")
	flag.IntVar(&f.gramRows, "gram-rows", 60_000, "rows that a Gram matrix is summed over")
	passes := flag.String("passes", "12,12,12,12,12,12,12,12,12,12", "passes of each stage")
	predict := flag.Bool("predict", false, "only the products of a prediction with as many stages as -passes has")
	flag.BoolVar(&f.own, "own", false, "do products by the program's own loops where the program does, instead of the BLAS")
	flag.BoolVar(&f.patches, "patches", false, "features of kind patches instead of random Fourier features")
	flag.StringVar(&f.link, "link", "softmax", "softmax or identity")
	flag.Parse()
	var err error
	for _, n := range strings.Split(*passes, ",") {
		passes, wrong := strconv.Atoi(n)
		f.passes = append(f.passes, passes)
		err = cmp.Or(err, wrong)
	}
	if err == nil {
		err = kernel.UseVector(os.Getenv("STAGEWISE_VECTOR"))
	}
	if err == nil {
		f.blas, err = kernel.Open(os.Getenv("STAGEWISE_BLAS"))
	}
	if err == nil {
		f.blas.UseForSolves()
		err = json.NewEncoder(os.Stdout).Encode(map[string]any{"blas": f.blas.Name(), "vector": f.blas.Vector(), "seconds": f.measure(*predict)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// measure returns the seconds that the calls take.
func (f *floor) measure(predict bool) float64 {
	f.fill()
	all := make([]*sums, runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = &sums{gram: kernel.NewDense(f.columns, f.columns), wide: kernel.NewDense(raw, raw),
			transposed: kernel.NewDense(f.classes, f.columns), white: kernel.NewDense(positions, values),
			responses: kernel.NewDense(positions, filters)}
		all[i].cross.Begin(f.columns, f.classes)
	}
	covariance, second := definite(raw), definite(f.columns)
	cross, step := mat.NewDense(f.columns, f.classes, nil), mat.NewDense(f.columns, f.classes, nil)
	began := time.Now()
	if !f.patches {
		if !predict {
			f.each(all, func(s *sums, _ int, m *rows) {
				if m.train {
					f.blas.Gram(s.wide, m.raw, true)
				}
			})
			new(mat.EigenSym).Factorize(covariance, true)
		}
		f.each(all, func(_ *sums, _ int, m *rows) { f.blas.Mul(m.inputs, m.raw, f.basis, false) })
	}
	for _, passes := range f.passes {
		if predict {
			f.visit(all, visit{block: true, weights: true})
			continue
		}
		f.visit(all, visit{block: true, cosine: true})
		f.each(all, func(s *sums, i int, m *rows) {
			if m.train && (i+1)*f.gramRows/f.train > i*f.gramRows/f.train {
				f.blas.Gram(s.gram, m.block, true)
			}
		})
		var factor mat.Cholesky
		factor.Factorize(second)
		for pass := range passes {
			f.visit(all, visit{scores: true, weights: pass > 0, cross: true})
			all[0].cross.AddTo(cross.RawMatrix().Data)
			if err := factor.SolveTo(step, cross); err != nil {
				panic(err)
			}
		}
		f.visit(all, visit{scores: true, weights: true}) // which publishes the scores
	}
	return time.Since(began).Seconds()
}

// fill makes the operands.
func (f *floor) fill() {
	for i, left := range []int{f.train, f.test} {
		for ; left > 0; left -= message {
			n := min(left, message)
			m := &rows{raw: filled(n, raw, 1), inputs: filled(n, inputs, 1), block: filled(n, f.columns, 1), score: filled(n, f.classes, 0.1),
				prediction: filled(n, f.classes, 1), logs: make([]float64, n), first: make([]int32, n), ones: make([]float32, n), train: i == 0}
			for i := range m.ones {
				m.ones[i] = 1
			}
			f.messages = append(f.messages, m)
		}
	}
	f.basis, f.directions, f.offsets = filled(raw, inputs, 0.05), filled(inputs, f.columns, 0.3), filled(1, f.columns, 6).Data
	f.patch, f.whitening, f.filters = filled(positions, values, 1), filled(values, values, 0.3), filled(values, filters, 0.3)
	f.residual = filled(f.classes, tile, 1)
	if f.weights = (kernel.Weights{Dense: filled(f.columns, f.classes, 0.01)}); f.own {
		f.weights = kernel.NewWeights(f.weights.Dense)
	}
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

// each calls do for all messages, with one goroutine for each of all.
func (f *floor) each(all []*sums, do func(*sums, int, *rows)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for _, s := range all {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(f.messages); i = int(next.Add(1)) - 1 {
				do(s, i, f.messages[i])
			}
		})
	}
	group.Wait()
}

// visit is what is done with each tile of rows, in this order: the products of its block and their cosines, predictions from the scores
// before it, the products of the block and the weights, and the cross moment.
type visit struct{ block, cosine, scores, weights, cross bool }

// visit makes the calls of a visit for all messages.
func (f *floor) visit(all []*sums, do visit) {
	f.each(all, func(s *sums, _ int, m *rows) {
		for from := 0; from < m.block.Rows; from += tile {
			to := min(from+tile, m.block.Rows)
			block, p := m.block.Slice(from, to), m.prediction.Slice(from, to)
			switch {
			case do.block && f.patches:
				for range to - from {
					f.blas.Mul(s.white, f.patch, f.whitening, false)
					f.blas.Mul(s.responses, s.white, f.filters, false)
				}
			case do.block:
				f.blas.Mul(block, m.inputs.Slice(from, to), f.directions, false)
			}
			if do.cosine && !f.patches {
				kernel.Cosine(block, f.offsets, float32(math.Sqrt(2/float64(f.columns))))
			}
			if do.scores {
				copy(p.Data, m.score.Slice(from, to).Data)
			}
			if do.weights {
				f.blas.MulAdd(p, block, f.weights)
			}
			if do.scores && f.link == "softmax" {
				kernel.SoftmaxRows(p, m.logs[from:to], m.first[from:to])
			}
			switch {
			case do.cross && m.train && f.own:
				s.cross.Add(f.blas, block, p, m.ones[from:to])
			case do.cross && m.train:
				r := f.residual
				r.Reshape(f.classes, to-from)
				f.blas.Mul(s.transposed, r, block, true)
			}
		}
	})
}
