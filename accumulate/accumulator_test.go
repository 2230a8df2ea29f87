package accumulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// message is the block, residuals and weights of one message.
type message struct {
	block, residual kernel.Dense
	weights         []float32
}

func messageOf(r *rand.Rand, n, p, k int, weight func() float32) message {
	m := message{kernel.NewDense(n, p), kernel.NewDense(n, k), make([]float32, n)}
	for i := range m.block.Data {
		m.block.Data[i] = float32(r.NormFloat64())
	}
	for i := range m.residual.Data {
		m.residual.Data[i] = float32(r.NormFloat64())
	}
	for i := range m.weights {
		m.weights[i] = weight()
	}
	return m
}

func one() float32 { return 1 }

// moments are sums in float64, row by row, with the sums of absolute values that rounding is relative to.
type moments struct{ gram, cross, gramSize, crossSize []float64 }

func momentsOf(p, k int, messages []message) moments {
	m := moments{make([]float64, p*(p+1)/2), make([]float64, p*k), make([]float64, p*(p+1)/2), make([]float64, p*k)}
	for _, one := range messages {
		for n, w := range one.weights {
			if w == 0 {
				continue
			}
			x, y, at := one.block.Row(n), one.residual.Row(n), 0
			for i := range p {
				wx := float64(w) * float64(x[i])
				for j := range i + 1 {
					m.gram[at] += wx * float64(x[j])
					m.gramSize[at] += math.Abs(wx * float64(x[j]))
					at++
				}
				for c, v := range y {
					m.cross[i*k+c] += wx * float64(v)
					m.crossSize[i*k+c] += math.Abs(wx * float64(v))
				}
			}
		}
	}
	return m
}

func (m moments) check(t *testing.T, sum *Sum, relative float64) {
	t.Helper()
	for name, want := range map[string][2][]float64{statistics.FieldGram: {m.gram, m.gramSize}, statistics.FieldCross: {m.cross,
		m.crossSize}} {
		got, ok := sum.Tensors().Find(name)
		if !ok && !slices.ContainsFunc(want[1], func(v float64) bool { return v != 0 }) {
			continue // an absent field is zero
		}
		if !ok || len(got.Data) != len(want[0]) {
			t.Fatalf("%s is %v, expected %d values", name, got.Shape, len(want[0]))
		}
		for i, v := range got.Data {
			if !(math.Abs(v-want[0][i]) <= relative*want[1][i]) {
				t.Fatalf("%s[%d] is %v, expected %v", name, i, v, want[0][i])
			}
		}
	}
}

func accumulated(a *Accumulator, p, k int, messages ...message) *Sum {
	a.Begin(p, k, true)
	for _, m := range messages {
		a.Add(m.block, m.residual, m.weights)
		a.AddGram(m.block, m.weights)
	}
	return a.End()
}

func TestAccumulatorAgainstFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a := &Accumulator{BLAS: kernel.Gonum()}
	weights := map[string]func() float32{
		"ones":     one,
		"zeros":    func() float32 { return 0 },
		"counts":   func() float32 { return float32(r.IntN(3)) },
		"fraction": func() float32 { return r.Float32() * 3 },
	}
	for _, p := range []int{1, 63, 64, 65} {
		for _, k := range []int{1, 10} {
			for name, weight := range weights {
				t.Run(fmt.Sprint(p, k, name), func(t *testing.T) {
					var messages []message
					for _, n := range []int{64, 0, 1, 65, 63} {
						messages = append(messages, messageOf(r, n, p, k, weight))
					}
					sum := accumulated(a, p, k, messages...)
					momentsOf(p, k, messages).check(t, sum, 1e-6)
				})
			}
		}
	}
}

// The float32 tiles are flushed after whole messages of at least 4096 rows.
func TestTilesAreFlushed(t *testing.T) {
	const p, k = 5, 2
	r := rand.New(rand.NewPCG(2, 1))
	a := &Accumulator{BLAS: kernel.Gonum()}
	for _, sizes := range [][]int{{4095}, {4096}, {4097}, {4095, 1}, {4095, 2}, {4095, 1, 1}, {4096, 4096, 1}} {
		var messages []message
		for _, n := range sizes {
			messages = append(messages, messageOf(r, n, p, k, one))
		}
		sum := accumulated(a, p, k, messages...)
		momentsOf(p, k, messages).check(t, sum, 1e-5) // gonum adds row after row
		// the same order of additions: one sum for each tile, tiles added in float64
		want, tile, rows := &Sum{}, []message(nil), 0
		flush := func() {
			if len(tile) > 0 {
				mustMerge(t, want, accumulated(&Accumulator{BLAS: kernel.Gonum()}, p, k, tile...))
			}
			tile, rows = nil, 0
		}
		for _, m := range messages {
			tile, rows = append(tile, m), rows+m.block.Rows
			if rows >= 4096 {
				flush()
			}
		}
		flush()
		mustEqual(t, sum, want)
	}
}

// 2^24 + 1 has no float32: adding 1 to a float32 sum would lose it.
func TestTilesKeepWhatOneFloat32Loses(t *testing.T) {
	const n, times = 4096, 5
	m := message{kernel.NewDense(n, 1), kernel.NewDense(n, 1), slices.Repeat([]float32{1}, n)}
	for i := range m.block.Data {
		m.block.Data[i], m.residual.Data[i] = 64, 1 // each tile adds 2^24 to the Gram matrix
	}
	small := message{kernel.NewDense(1, 1), kernel.NewDense(1, 1), []float32{1}}
	small.block.Data[0] = 1
	messages := append(slices.Repeat([]message{m}, times), small)
	sum := accumulated(&Accumulator{BLAS: kernel.Gonum()}, 1, 1, messages...)
	if got := sum.Field(statistics.FieldGram, 1)[0]; got != times<<24+1 {
		t.Errorf("the sum is %v, expected %v", got, times<<24+1)
	}
}

func TestEmptySegmentIsZeros(t *testing.T) {
	a := &Accumulator{BLAS: kernel.Gonum()}
	accumulated(a, 3, 2, messageOf(rand.New(rand.NewPCG(1, 1)), 10, 3, 2, one))
	sum := accumulated(a, 3, 2)
	for _, f := range sum.Tensors() {
		for _, v := range f.Data {
			if v != 0 {
				t.Fatalf("%s of no rows is %v", f.Name, f.Data)
			}
		}
	}
	if len(sum.Tensors()) != 1 { // a Gram matrix of zeros would be megabytes
		t.Errorf("an empty segment has the fields %v", sum.Tensors())
	}
}

func TestGramIsOptional(t *testing.T) {
	a := &Accumulator{BLAS: kernel.Gonum()}
	m := messageOf(rand.New(rand.NewPCG(1, 1)), 10, 3, 2, func() float32 { return 0.5 })
	with := accumulated(a, 3, 2, m)
	a.Begin(3, 2, false)
	a.Sum().Count(10, 1)
	a.Add(m.block, m.residual, m.weights)
	without := a.End()
	if _, ok := without.Tensors().Find(statistics.FieldGram); ok || without.Rows != 10 {
		t.Errorf("without a Gram matrix: %+v", without)
	}
	if !slices.Equal(with.Field(statistics.FieldCross, 3, 2), without.Field(statistics.FieldCross, 3, 2)) {
		t.Error("the cross moment depends on whether there is a Gram matrix")
	}
}

// A row of weight 2 counts as the row twice. A row of weight 0 does not count, whatever values it holds.
func TestWeights(t *testing.T) {
	const p, k = 7, 3
	r := rand.New(rand.NewPCG(4, 1))
	weighted := messageOf(r, 100, p, k, func() float32 { return float32(r.IntN(3)) })
	repeated := message{block: kernel.Dense{Cols: p}, residual: kernel.Dense{Cols: k}}
	for i, w := range weighted.weights {
		for range int(w) {
			repeated.block.Data = append(repeated.block.Data, weighted.block.Row(i)...)
			repeated.residual.Data = append(repeated.residual.Data, weighted.residual.Row(i)...)
			repeated.weights = append(repeated.weights, 1)
		}
		if w == 0 {
			weighted.block.Row(i)[i%p] = float32(math.Inf(1))
			weighted.residual.Row(i)[0] = float32(math.NaN())
		}
	}
	repeated.block.Rows, repeated.residual.Rows = len(repeated.weights), len(repeated.weights)
	want := momentsOf(p, k, []message{repeated})
	want.check(t, accumulated(&Accumulator{BLAS: kernel.Gonum()}, p, k, repeated), 1e-6)
	want.check(t, accumulated(&Accumulator{BLAS: kernel.Gonum()}, p, k, weighted), 1e-6)
}

func TestExactAgainstFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	e := &Exact{BLAS: kernel.Gonum()}
	for _, p := range []int{3, 30, 65} {
		const k = 4
		var messages []message
		for _, n := range []int{64, 0, 5000, 63} {
			messages = append(messages, messageOf(r, n, p, k, func() float32 { return float32(r.IntN(3)) }))
		}
		sum := &Sum{}
		e.Begin(p, k)
		for _, m := range messages {
			e.Add(m.block, m.residual, m.weights)
		}
		e.End(sum)
		momentsOf(p, k, messages).check(t, sum, 1e-13)
	}
}

func TestAddRefusesOtherShapes(t *testing.T) {
	a := &Accumulator{BLAS: kernel.Gonum()}
	a.Begin(3, 2, true)
	for _, m := range []message{
		{kernel.NewDense(2, 4), kernel.NewDense(2, 2), make([]float32, 2)},
		{kernel.NewDense(2, 3), kernel.NewDense(2, 3), make([]float32, 2)},
		{kernel.NewDense(2, 3), kernel.NewDense(3, 2), make([]float32, 2)},
		{kernel.NewDense(2, 3), kernel.NewDense(2, 2), make([]float32, 3)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a block of %d × %d was added", m.block.Rows, m.block.Cols)
				}
			}()
			a.Add(m.block, m.residual, m.weights)
		}()
	}
}
