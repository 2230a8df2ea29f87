package accumulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// added returns the sum of matrices, one after the other in float64. It is nil if none has values.
func added(matrices [][]float64) (sum []float64) {
	for _, m := range matrices {
		switch {
		case m == nil:
		case sum == nil:
			sum = slices.Clone(m)
		default:
			for i, v := range m {
				sum[i] += v
			}
		}
	}
	return sum
}

// gramField returns a copy of the Gram matrix of a sum; nil if it has none.
func gramField(s *Sum) []float64 {
	gram, _ := s.Tensors().Find(statistics.FieldGram)
	return slices.Clone(gram.Data)
}

// However many tiles wait, and in whatever memory, a Gram matrix has the bits of adding each segment to its share, and each share
// to those before it.
func TestTilesAddUpInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	weights := map[string]func() float32{
		"ones":     one,
		"counts":   func() float32 { return float32(r.IntN(3)) },
		"fraction": func() float32 { return r.Float32() * 3 },
		"zeros":    func() float32 { return float32(r.IntN(50) / 49) }, // of most segments all
	}
	buffers := &BufferPool{}
	for _, c := range []struct{ p, shares, segments int }{
		{1, 2, 40}, {63, 3, 12}, {64, 5, 4}, {65, 9, 8}, {65, 9, 1}, {1024, 2, 11}, // of which four tiles are all that wait
	} {
		for name, weight := range weights {
			t.Run(fmt.Sprint(c, name), func(t *testing.T) {
				a, plain := &Accumulator{BLAS: kernel.Gonum(), Buffers: buffers}, &Accumulator{BLAS: kernel.Gonum()}
				sum, shares := &Sum{}, [][]float64(nil)
				for range c.shares {
					share, segments := &Sum{}, [][]float64(nil)
					for range r.IntN(c.segments + 1) {
						m := messageOf(r, 1+r.IntN(3), c.p, 0, weight)
						arrowtest.NoError(t, share.MergeWhole(gramOf(a, m), buffers, nil))
						segments = append(segments, gramField(gramOf(plain, m)))
					}
					arrowtest.NoError(t, sum.MergeWhole(share, buffers, nil))
					shares = append(shares, added(segments))
				}
				want := added(shares)
				if sum.HasGram() != (want != nil) {
					t.Fatalf("the sum has a Gram matrix: %v, expected %v", sum.HasGram(), want != nil)
				}
				got := gramField(sum)
				if len(got) != len(want) {
					t.Fatalf("%d values, expected %d", len(got), len(want))
				}
				for i, v := range want {
					if math.Float64bits(got[i]) != math.Float64bits(v) {
						t.Fatalf("value %d is %v, expected %v", i, got[i], v)
					}
				}
				buffers.Put(sum)
			})
		}
	}
}

// gramOf returns the sum of a segment of one message, which has a Gram matrix alone.
func gramOf(a *Accumulator, m message) *Sum {
	a.Begin(m.block.Cols, 0, true)
	a.AddGram(m.block, m.weights)
	return a.End()
}

// A segment that was abandoned leaves nothing in the next one, of as many columns or of others.
func TestAbandonedSegmentsLeaveNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	a := &Accumulator{BLAS: kernel.Gonum()}
	for _, p := range []int{64, 64, 63, 65, 65, 1, 64} {
		m := messageOf(r, 3, p, 0, one)
		want := gramField(gramOf(&Accumulator{BLAS: kernel.Gonum()}, m))
		if got := gramField(gramOf(a, m)); !slices.Equal(got, want) {
			t.Errorf("%d columns: the Gram matrix begins with %v, expected %v", p, got[0], want[0])
		}
		a.Begin(p, 0, true)
		a.AddGram(m.block, m.weights)
		a.Begin(p, 0, false)
		a.End()
		if got := gramField(gramOf(a, m)); !slices.Equal(got, want) {
			t.Errorf("%d columns, after a segment that was abandoned: it begins with %v, expected %v", p, got[0], want[0])
		}
	}
}

// What merges into another sum has the same Gram matrix afterwards, and does not share it.
func TestTilesOfAnArgumentStay(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	a := &Accumulator{BLAS: kernel.Gonum(), Buffers: &BufferPool{}}
	m := messageOf(r, 3, 65, 0, one)
	want := gramField(gramOf(a, m))
	into, of := &Sum{}, gramOf(a, m)
	mustMerge(t, into, of, gramOf(a, messageOf(r, 3, 65, 0, one)))
	clear(into.Field(statistics.FieldGram, 65*66/2))
	a.Buffers.Put(into)
	gramOf(a, messageOf(r, 3, 65, 0, one))
	if got := gramField(of); !slices.Equal(got, want) {
		t.Error("a sum that was merged into another has another Gram matrix")
	}
}

// Gram matrices of other shapes don't merge, be they tiles or fields, and the sum stays as it was.
func TestMergeRefusesOtherTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 1))
	a := &Accumulator{BLAS: kernel.Gonum()}
	m, other := messageOf(r, 2, 3, 0, one), messageOf(r, 2, 4, 0, one)
	want := gramField(gramOf(a, m))
	for _, packed := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		into, of := gramOf(a, m), gramOf(a, other)
		for i, sum := range []*Sum{into, of} {
			if packed[i] {
				sum.Tensors()
			}
		}
		if err := into.MergeWhole(of, nil, nil); !errors.As(err, new(*wire.ShapeError)) {
			t.Errorf("Gram matrices of 3 and 4 columns, in fields: %v: %v, expected a ShapeError", packed, err)
		}
		if got := gramField(into); !slices.Equal(got, want) {
			t.Errorf("in fields: %v: the Gram matrix is %v, expected %v", packed, got, want)
		}
	}
}

// Sums in memory of the pools have the same bits as those in new memory, whatever that memory held and how much there is.
func TestPooledMemoryChangesNothing(t *testing.T) {
	pool, crosses := &BufferPool{}, &CrossPool{}
	a := &Accumulator{BLAS: kernel.Gonum(), Buffers: pool, Crosses: crosses}
	for round := range 3 {
		for _, p := range []int{65, 64, 1, 63} {
			block, ones := kernel.NewDense(3, p), []float32{1, 1, 1}
			for i := range block.Data {
				block.Data[i] = float32(round + i%7)
			}
			gram := func(a *Accumulator) *Sum {
				a.Begin(p, 2, true)
				a.Add(block, kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, -1, 0.5, 3, float32(p), -0.25}}, ones)
				a.AddGram(block, ones)
				return a.End()
			}
			got, want := gram(a), gram(&Accumulator{BLAS: kernel.Gonum()})
			g, _ := got.Tensors().Find(statistics.FieldGram)
			w, _ := want.Tensors().Find(statistics.FieldGram)
			if len(g.Data) != p*(p+1)/2 {
				t.Fatalf("%d columns: %d values", p, len(g.Data))
			}
			for i := range w.Data {
				if g.Data[i] != w.Data[i] {
					t.Fatalf("%d columns: value %d is %g, want %g", p, i, g.Data[i], w.Data[i])
				}
			}
			c, _ := got.Tensors().Find(statistics.FieldCross)
			if expected, _ := want.Tensors().Find(statistics.FieldCross); !slices.Equal(c.Data, expected.Data) {
				t.Fatalf("%d columns: the cross moment is %v, want %v", p, c.Data, expected.Data)
			}
			for _, data := range [][]float64{g.Data, c.Data} {
				for i := range data {
					data[i] = -1
				}
			}
			pool.Put(got)
			if crosses.Put(got); len(got.Tensors()) != 0 {
				t.Errorf("%d columns: the sum still has %d fields", p, len(got.Tensors()))
			}
			pool.Put(got) // there is no Gram matrix any more
		}
	}
	if none := (*BufferPool)(nil); len(none.Get(3)) != 3 {
		t.Error("a nil pool returns no memory")
	}
}

// The memory of cross moments that were merged is used again, also of those of increments. That of a sum is its own.
func TestMergedCrossMomentsAreReused(t *testing.T) {
	crosses, first, second := &CrossPool{}, statistics.Increment(0), statistics.Increment(2)
	of := func(value float64, names ...string) *Sum {
		s := &Sum{}
		for _, name := range names {
			field := s.Field(name, 3, 2)
			for i := range field {
				field[i] = value
			}
		}
		return s
	}
	total := of(1, statistics.FieldCross, first.Scores(), first.Visited())
	for range 20 {
		part := of(2, statistics.FieldCross, first.Scores(), second.Cross(), first.Visited())
		arrowtest.NoError(t, total.MergeWhole(part, nil, crosses))
		for range 3 { // whoever takes memory writes to it
			other := &Sum{}
			for i := range crosses.Cross(other, 3, 2) {
				other.Field(statistics.FieldCross, 3, 2)[i] = -1
			}
		}
	}
	for name, want := range map[string]float64{statistics.FieldCross: 41, first.Scores(): 41, second.Cross(): 40, first.Visited(): 41} {
		for _, v := range total.Field(name, 3, 2) {
			if v != want {
				t.Errorf("%s has %v, expected %v", name, v, want)
			}
		}
	}
}

// A cross moment in memory of the pool begins at 0, whatever that memory held. A sum that has one keeps it.
func TestPooledCross(t *testing.T) {
	for _, pool := range []*CrossPool{nil, {}} {
		for _, p := range []int{65, 64, 1, 63} {
			sum := &Sum{}
			cross := pool.Cross(sum, p, 2)
			if len(cross) != 2*p {
				t.Fatalf("%d columns: %d values", p, len(cross))
			}
			for i, v := range cross {
				if v != 0 {
					t.Fatalf("%d columns: value %d is %g", p, i, v)
				}
				cross[i] = -1
			}
			if again := pool.Cross(sum, p, 2); &again[0] != &cross[0] || again[0] != -1 {
				t.Errorf("%d columns: the cross moment of a sum is another one the second time", p)
			}
			if pool.Put(sum); len(sum.Tensors()) != 0 {
				t.Errorf("%d columns: the sum still has %d fields", p, len(sum.Tensors()))
			}
			pool.Put(sum) // there is none any more
		}
	}
}
