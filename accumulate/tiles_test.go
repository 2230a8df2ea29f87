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
