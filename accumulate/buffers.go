package accumulate

import (
	"sync"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// BufferPool is the memory of Gram matrices that were merged or sent, and of tiles that were added. They are megabytes each, which would
// otherwise be mapped and cleared for each segment and each record. The zero value is an empty pool, and a nil pool is always empty. It is
// safe for concurrent use.
type BufferPool struct {
	pool  sync.Pool
	tiles sync.Pool
}

// Put takes the Gram matrix, if there is one, out of a sum and keeps its memory. Nobody else may use that matrix any more.
func (b *BufferPool) Put(sum *Sum) {
	sum.tiles.drop()
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

// tile returns size values of any content in single precision.
func (b *BufferPool) tile(size int) []float32 {
	if b != nil {
		if tile, ok := b.tiles.Get().(*[]float32); ok && cap(*tile) >= size {
			return (*tile)[:size]
		}
	}
	return make([]float32, size)
}

// putTile keeps the memory of a tile that nobody uses any more.
func (b *BufferPool) putTile(tile []float32) {
	if b != nil {
		b.tiles.Put(&tile)
	}
}
