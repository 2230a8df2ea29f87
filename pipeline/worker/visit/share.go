package visit

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Share is a worker's state of one share of a plan: of consecutive partitions, whose sums are one record. Create shares with
// [NewShare]. A share is not safe for concurrent use, except that each segment may be used by another goroutine, and that the
// coverage does not change once it is set.
type Share struct {
	Parts    []*Part           // in order
	Segments []*Segment        // in order
	Recent   int               // number of leading segments in the run's own spans, which the survey reads
	Staying  int               // number of leading segments outside leaving increments, which visits read
	Grams    int               // number of leading stages with published Gram matrices
	Surveyed coverage.Coverage // coverage of the survey
	Covered  coverage.Coverage // coverage of the survey and of an update's plan: later visits must cover the same messages
	Visited  protocol.Visit    // last visit with published sums; zero: they are to be published, perhaps again
	Scores   int               // stage before which the batches have the scores, or protocol.NoStage
}

// Part is a partition of a share.
type Part struct {
	Span       coverage.Span        // offset range of the run; empty if an update has no new rows in the partition
	Ordinal    int                  // index of the partition in the plan
	Increments []coverage.Increment // whose offsets are divided into segments; nil: those of the span
	segments   []*Segment           // in the run's own spans
}

// NewShare returns the empty state of a share with the given partitions, in order. segment is the number of offsets of a segment.
func NewShare(segment int64, parts ...*Part) *Share {
	s := &Share{Parts: parts, Scores: protocol.NoStage}
	for _, part := range parts {
		from := len(s.Segments)
		if part.Increments == nil {
			for _, span := range part.Span.Segments(segment) {
				s.Segments = append(s.Segments, &Segment{Part: part, Span: span})
			}
		}
		for i := range part.Increments {
			s.add(part, &part.Increments[i], Segment{Increment: i}, segment)
		}
		part.segments = s.Segments[from:]
		slices.SortFunc(part.segments, func(a, b *Segment) int { return cmp.Compare(a.Span.From, b.Span.From) })
		for i, segment := range part.segments {
			segment.Index, segment.Last = i, i == len(part.segments)-1
		}
	}
	s.Recent, s.Staying = len(s.Segments), len(s.Segments)
	return s
}

// add adds the segments of an increment in a partition, with the properties of like.
func (s *Share) add(part *Part, increment *coverage.Increment, like Segment, segment int64) {
	covered, _ := increment.On(part.Span.Partition)
	for _, span := range covered.Spans {
		for _, span := range span.Segments(segment) {
			next := like
			next.Part, next.Span = part, span
			s.Segments = append(s.Segments, &next)
		}
	}
}

// AddPast adds the segments of an increment that an update revisits, or that leaves; for place see [Segment]. Leaving
// increments come last.
func (s *Share) AddPast(increment *coverage.Increment, place int, leaves bool, segment int64) {
	for _, part := range s.Parts {
		s.add(part, increment, Segment{Increment: place, Leaves: leaves, Past: true}, segment)
	}
	if !leaves {
		s.Staying = len(s.Segments)
	}
}

// Numbers returns the numbers of the partitions.
func (s *Share) Numbers() (numbers []int) {
	for _, part := range s.Parts {
		numbers = append(numbers, part.Span.Partition)
	}
	return numbers
}

// ZeroScores sets the scores before stage 0, which are all zero, and clears the votes.
func (s *Share) ZeroScores() {
	for _, b := range s.batches() {
		clear(b.Score.Data)
		clear(b.Votes.Data)
		b.At = 0
	}
	s.Scores = 0
}

// DropBlocks drops the blocks of rows in memory, and returns their memory. The rows are kept.
func (s *Share) DropBlocks(cache *Cache) {
	for _, b := range s.batches() {
		cache.Give(b.blockBytes())
		b.block, b.blockOf = kernel.Dense{}, 0
	}
}

// Release returns all memory of the share. The share must not be used afterwards.
func (s *Share) Release(cache *Cache) {
	for _, segment := range s.Segments {
		segment.dropBatches(cache)
	}
}

// batches returns the batches that are in memory.
func (s *Share) batches() (batches []*Batch) {
	for _, segment := range s.Segments {
		batches = append(batches, segment.Batches...)
	}
	return batches
}

// Numbers returns the numbers of the partitions of shares.
func Numbers(shares []*Share) (numbers []int) {
	for _, s := range shares {
		numbers = append(numbers, s.Numbers()...)
	}
	return numbers
}

// Segment is a fixed range of a partition's offsets whose messages are summed together. Create segments with [NewShare]. A segment
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

	Batches []*Batch  // that stay in memory between visits; nil: they must be read again
	counted []counted // messages that the survey has counted, in offset order
}

// Checksum returns a hash of the position of a message of a partition, of its number of rows and of its bytes. If a later visit reads other
// bytes or another number of rows, the checksum differs.
func Checksum(m protocol.Message, partition, rows int) uint64 {
	return wire.Hash(uint64(partition), uint64(m.Offset), uint64(rows), uint64(m.Message.Checksum()))
}

// counted is a message that counts in a run.
type counted struct {
	offset   int64
	checksum uint64 // see [Checksum]
}

// has reports whether the batches belong to the messages that the survey has counted.
func (s *Segment) has(batches []*Batch) bool {
	return s.counted != nil && slices.EqualFunc(s.counted, batches, func(c counted, b *Batch) bool {
		return c.offset == b.Offset && c.checksum == b.Checksum
	})
}

// KeepBatches stores the batches of the segment in place of others, if there is room.
func (s *Segment) KeepBatches(batches []*Batch, cache *Cache) {
	s.dropBatches(cache)
	bytes := int64(0)
	for _, b := range batches {
		bytes += b.bytes()
	}
	if cache.tryReserve(bytes) {
		s.Batches = batches
		for _, b := range batches {
			b.kept = true
		}
	}
}

// dropBatches returns the memory of the batches and their blocks.
func (s *Segment) dropBatches(cache *Cache) {
	for _, b := range s.Batches {
		cache.Give(b.bytes())
	}
	s.Batches = nil
}
