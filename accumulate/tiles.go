package accumulate

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
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
