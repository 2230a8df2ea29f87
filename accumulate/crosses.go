package accumulate

import (
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// CrossPool is the memory of cross moments. In one process a worker takes it for sums, and puts it back when these are merged, or
// gives them to the solver, which puts it back. The zero value is an empty pool, and a nil pool is always empty. It is safe for
// concurrent use.
type CrossPool struct{ memory[float64] }

// Put takes the cross moment, if there is one, out of a sum and keeps its memory. Nobody else may use it any more.
func (c *CrossPool) Put(sum *Sum) { c.PutField(sum, statistics.FieldCross) }

// PutField is Put for a cross moment with another name.
func (c *CrossPool) PutField(sum *Sum, name string) {
	if cross, ok := sum.Take(name); ok && c != nil && sum.occurring == nil {
		c.put(cross.Data)
	}
}

// Cross is the cross moment (p × k) of a sum, as [Sum.Field] has it. If the sum has none, its memory is that of one
// that [CrossPool.Put] has taken.
func (c *CrossPool) Cross(sum *Sum, p, k int) []float64 {
	if _, begun := sum.find(statistics.FieldCross); begun {
		return sum.Field(statistics.FieldCross, p, k)
	}
	var data []float64
	if c != nil && sum.occurring == nil {
		data = c.get(p * k)
	} else {
		data = make([]float64, p*k)
	}
	// Also of memory that is new: a page that is read before it is written is mapped twice, and the second time all processors wait. Of
	// 14 million values, that took ten times as long as their sums.
	clear(data)
	sum.fields = append(sum.fields, wire.Matrix(statistics.FieldCross, p, k, data))
	return data
}
