package accumulate

import (
	"sync"

	"github.com/stagewise/stagewise/schemas"
)

// BufferPool is the memory of Gram matrices, and of cross moments of sparse rows, that were merged or sent. They are megabytes each, which
// would otherwise be mapped and cleared for each segment and each record. The zero value is an empty pool, and a nil pool is always empty. It
// is safe for concurrent use.
type BufferPool struct{ pool, crosses sync.Pool }

// Put takes the Gram matrix, if there is one, out of a sum and keeps its memory. Nobody else may use that matrix any more.
func (b *BufferPool) Put(sum *Sum) {
	if gram, ok := sum.Take(schemas.FieldGram); ok && b != nil {
		b.pool.Put(&gram.Data)
	}
}

// Get returns size values of any content.
func (b *BufferPool) Get(size int) []float64 {
	if b != nil {
		if buffer, ok := b.pool.Get().(*[]float64); ok && cap(*buffer) >= size {
			return (*buffer)[:size]
		}
	}
	return make([]float64, size)
}

// PutCross takes the cross moment, if there is one, out of a sum and keeps its memory. Nobody else may use it any more.
func (b *BufferPool) PutCross(sum *Sum) {
	if cross, ok := sum.Take(schemas.FieldCross); ok && b != nil && sum.occurring == nil {
		b.crosses.Put(&cross.Data)
	}
}

// Cross is the cross moment (p × k) of a sum, as [Sum.Field] has it. If the sum has none, its memory is that of one that [BufferPool.PutCross] has
// taken.
func (b *BufferPool) Cross(sum *Sum, p, k int) []float64 {
	if _, begun := sum.Tensors().Find(schemas.FieldCross); begun {
		return sum.Field(schemas.FieldCross, p, k)
	}
	var data []float64
	if b != nil && sum.occurring == nil {
		if buffer, ok := b.crosses.Get().(*[]float64); ok && cap(*buffer) >= p*k {
			data = (*buffer)[:p*k]
		}
	}
	if data == nil {
		data = make([]float64, p*k)
	}
	// Also of memory that is new: a page that is read before it is written is mapped twice, and the second time all processors wait. Of
	// 14 million values, that took ten times as long as their sums.
	clear(data)
	sum.fields = append(sum.fields, schemas.Matrix(schemas.FieldCross, p, k, data))
	return data
}
