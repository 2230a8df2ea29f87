package accumulate

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
)

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
