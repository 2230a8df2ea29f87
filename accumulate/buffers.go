package accumulate

import (
	"sync"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// BufferPool is the memory of Gram matrices that were merged or sent. They are megabytes each, which would otherwise be
// mapped and cleared for each segment and each record. The zero value is an empty pool, and a nil pool is always empty.
// It is safe for concurrent use.
type BufferPool struct{ pool sync.Pool }

// Put takes the Gram matrix, if there is one, out of a sum and keeps its memory. Nobody else may use that matrix any more.
func (b *BufferPool) Put(sum *Sum) {
	if gram, ok := sum.Take(statistics.FieldGram); ok && b != nil {
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
