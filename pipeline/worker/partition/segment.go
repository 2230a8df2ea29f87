package partition

import (
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Segment is a fixed range of a partition's offsets whose messages are summed together. Create segments with [New]. A segment
// may be used by one goroutine at a time.
type Segment struct {
	Part  *Part
	Span  coverage.Span // offset range
	Index int           // of a segment in the run's own spans, among those of its partition
	Last  bool          // it is the last of these
	// Increment is the index of the segment's increment: in a full run among those of the plan; in an update among the visited
	// ones, starting with the new one, or if Leaves is set among the leaving ones.
	Increment int
	Leaves    bool
	Past      bool // the increment is outside the spans of this run

	counted   []Counted // messages counted by the survey
	batches   []*Batch  // nil: they must be read again
	residuals int64     // start offset of the segment's scores on the residuals topic
}

// Checksum returns a hash of the position of a message of a partition, of its number of rows and of its bytes. If a later visit reads other
// bytes or another number of rows, the checksum differs.
func Checksum(m protocol.Message, partition, rows int) uint64 {
	return wire.Hash(uint64(partition), uint64(m.Offset), uint64(rows), uint64(m.Message.Checksum()))
}

// Counted is a message that counts in a run.
type Counted struct {
	Offset   int64
	Checksum uint64 // see [Checksum]
}

// SetCounted sets the messages of the segment that the survey has counted, in offset order.
func (s *Segment) SetCounted(messages []Counted) { s.counted = messages }

// has reports whether the batches belong to the messages that the survey has counted.
func (s *Segment) has(batches []*Batch) bool {
	return s.counted != nil && slices.EqualFunc(s.counted, batches, func(c Counted, b *Batch) bool {
		return c.Offset == b.Offset && c.Checksum == b.Checksum
	})
}

// Batches returns the batches that stay in memory between visits; nil if they must be read again.
func (s *Segment) Batches() []*Batch { return s.batches }

// KeepBatches stores the batches of the segment in place of others, if there is room. Its messages are then idle.
func (s *Segment) KeepBatches(batches []*Batch, cache *Cache) {
	cache.Rest(s)
	s.dropBatches(cache)
	bytes := int64(0)
	for _, b := range batches {
		bytes += b.bytes()
	}
	if cache.tryReserve(bytes) {
		s.batches = batches
		for _, b := range batches {
			b.kept = true
		}
	}
}

// dropBatches returns the memory of the batches and their blocks.
func (s *Segment) dropBatches(cache *Cache) {
	for _, b := range s.batches {
		cache.Give(b.bytes())
	}
	s.batches = nil
}

// Residuals returns the start offset of the segment's scores on the residuals topic.
func (s *Segment) Residuals() int64 { return s.residuals }
