package accumulate

import (
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// A Gram matrix in memory of the pool has the same bits as one in new memory, whatever that memory held and how much there is.
func TestPooledMemoryChangesNothing(t *testing.T) {
	pool := &BufferPool{}
	a := &Accumulator{BLAS: kernel.Gonum(), Buffers: pool}
	for round := range 3 {
		for _, p := range []int{65, 64, 1, 63} {
			block, ones := kernel.NewDense(3, p), []float32{1, 1, 1}
			for i := range block.Data {
				block.Data[i] = float32(round + i%7)
			}
			gram := func(a *Accumulator) *Sum {
				a.Begin(p, 0, true)
				a.AddGram(block, ones)
				return a.End()
			}
			got, want := gram(a), gram(&Accumulator{BLAS: kernel.Gonum()})
			g, _ := got.Tensors().Find(schemas.FieldGram)
			w, _ := want.Tensors().Find(schemas.FieldGram)
			if len(g.Data) != p*(p+1)/2 {
				t.Fatalf("%d columns: %d values", p, len(g.Data))
			}
			for i := range w.Data {
				if g.Data[i] != w.Data[i] {
					t.Fatalf("%d columns: value %d is %g, want %g", p, i, g.Data[i], w.Data[i])
				}
			}
			for i := range g.Data {
				g.Data[i] = -1
			}
			if pool.Put(got); len(got.Tensors()) != 0 {
				t.Errorf("%d columns: the sum still has %d fields", p, len(got.Tensors()))
			}
			pool.Put(got) // there is no Gram matrix any more
		}
	}
	if none := (*BufferPool)(nil); len(none.Get(3)) != 3 {
		t.Error("a nil pool returns no memory")
	}
}

// A cross moment in memory of the pool begins at 0, whatever that memory held. A sum that has one keeps it.
func TestPooledCross(t *testing.T) {
	for _, pool := range []*BufferPool{nil, {}} {
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
			if pool.PutCross(sum); len(sum.Tensors()) != 0 {
				t.Errorf("%d columns: the sum still has %d fields", p, len(sum.Tensors()))
			}
			pool.PutCross(sum) // there is none any more
		}
	}
}
