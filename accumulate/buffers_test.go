package accumulate

import (
	"slices"
	"testing"

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
