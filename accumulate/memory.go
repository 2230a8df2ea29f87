package accumulate

import (
	"sync"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// tiles are Gram matrices in single precision that a sum has not added to its field yet, in the order in which they are added. A
// segment has few rows, and its Gram matrix is one tile of megabytes. As a field it would be twice as large, and to add it to the sum of
// the share would read and write all of that sum each time. So some wait, and are added at the same time. Each is added in float64,
// after all before it: the bits are those of one addition after the other.
type tiles struct {
	list    [][]float32 // p(p+1)/2 each: the lower triangle, row by row
	buffers *BufferPool // where their memory goes; may be nil
}

// tilesBytes is how much memory the tiles of a sum take at most before they are added: four tiles of 1,024 columns, which shared caches
// hold. Of those of 2,048 columns or more each is added at once.
const tilesBytes = 8 << 20

// bytes returns how much memory the tiles take.
func (t *tiles) bytes() (n int) {
	for _, tile := range t.list {
		n += 4 * len(tile)
	}
	return n
}

// drop drops the tiles, whose memory may be used again.
func (t *tiles) drop() {
	for _, tile := range t.list {
		t.buffers.putTile(tile)
	}
	*t = tiles{}
}

// HasGram reports whether the sum has a Gram matrix.
func (s *Sum) HasGram() bool { return s.gramSize() > 0 }

// isTile reports whether the Gram matrix is one tile.
func (s *Sum) isTile() bool {
	_, begun := s.find(statistics.FieldGram)
	return len(s.tiles.list) == 1 && !begun
}

// addTile adds a tile, whose memory is that of the sum from now on.
func (s *Sum) addTile(tile []float32, buffers *BufferPool) {
	s.tiles.list, s.tiles.buffers = append(s.tiles.list, tile), buffers
}

// addTiles adds the tiles to the field gram.
func (s *Sum) addTiles() {
	if len(s.tiles.list) == 0 {
		return
	}
	gram, begun := s.find(statistics.FieldGram)
	if !begun {
		gram.Data = s.tiles.buffers.Get(len(s.tiles.list[0]))
		s.AddGram(gram.Data)
	}
	kernel.AddEach(gram.Data, begun, s.tiles.list...) // the first tile of a field is written, not added
	s.tiles.drop()
}

// gramSize returns how many values the Gram matrix has; 0 if there is none.
func (s *Sum) gramSize() int {
	if gram, any := s.find(statistics.FieldGram); any {
		return len(gram.Data)
	}
	if len(s.tiles.list) > 0 {
		return len(s.tiles.list[0])
	}
	return 0
}

// mergeTile adds the Gram matrix of o, which is one tile, to that of s. o has none from then on.
func (s *Sum) mergeTile(o *Sum) {
	s.addTile(o.tiles.list[0], o.tiles.buffers)
	o.tiles = tiles{}
	if s.tiles.bytes() >= tilesBytes {
		s.addTiles()
	}
}

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
