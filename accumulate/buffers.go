package accumulate

import (
	"sync"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// memory keeps slices for reuse. The zero value is empty. It is safe for concurrent use.
type memory[T any] struct{ pool sync.Pool }

// get returns size values of any content.
func (m *memory[T]) get(size int) []T {
	if kept, ok := m.pool.Get().(*[]T); ok && cap(*kept) >= size {
		return (*kept)[:size]
	}
	return make([]T, size)
}

// put keeps a slice that is no longer used.
func (m *memory[T]) put(data []T) { m.pool.Put(&data) }

// BufferPool is the memory of Gram matrices that were merged or sent, and of tiles that were added. They are megabytes each, which would
// otherwise be mapped and cleared for each segment and each record. The zero value is an empty pool, and a nil pool is always empty. It is
// safe for concurrent use.
type BufferPool struct {
	grams memory[float64]
	tiles memory[float32]
}

// Put takes the Gram matrix, if there is one, out of a sum and keeps its memory. Nobody else may use that matrix any more.
func (b *BufferPool) Put(sum *Sum) {
	sum.tiles.drop()
	if gram, ok := sum.Take(statistics.FieldGram); ok && b != nil {
		b.grams.put(gram.Data)
	}
}

// Get returns size values of any content.
func (b *BufferPool) Get(size int) []float64 {
	if b == nil {
		return make([]float64, size)
	}
	return b.grams.get(size)
}

// tile returns size values of any content in single precision.
func (b *BufferPool) tile(size int) []float32 {
	if b == nil {
		return make([]float32, size)
	}
	return b.tiles.get(size)
}

// putTile keeps the memory of a tile that is no longer used.
func (b *BufferPool) putTile(tile []float32) {
	if b != nil {
		b.tiles.put(tile)
	}
}
