// Package partition is a worker's state of one examples partition: its segments, which of their rows are in memory, and
// the progress of the partition's visits and scores.
//
//	span ──New──▶ State ──segments──▶ messages as read ──Keep──▶ batches, with scores and blocks
//
// All of the data could be read or computed again. Its memory is that of a [Cache], and returned when the partition
// moves to another worker.
package partition

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Share is a worker's state of one share of a plan: of consecutive partitions, whose sums are one record. Create shares with
// [New]. A share is not safe for concurrent use, except that each segment may be used by another goroutine, and that the
// coverage does not change once it is set.
type Share struct {
	Parts    []*Part           // in order
	Segments []*Segment        // in order
	recent   int               // number of leading segments in the run's own spans
	staying  int               // number of leading segments outside leaving increments
	Grams    int               // number of leading stages with published Gram matrices
	Surveyed coverage.Coverage // coverage of the survey
	Covered  coverage.Coverage // coverage of the survey and of an update's plan: later visits must cover the same messages
	Visited  protocol.Visit    // last visit with published sums; zero: they are to be published, perhaps again
	Scores   int               // stage before which the batches have the scores, or protocol.NoStage
	after    int               // stage after which the batches have the scores, or protocol.NoStage
}

// Part is a partition of a share.
type Part struct {
	Span       coverage.Span // offset range of the run; empty if an update has no new rows in the partition
	Ordinal    int           // index of the partition in the plan
	from, to   int           // the segments in the run's own spans
	increments []coverage.Increment
}

// NewPart returns a partition with the given hull of a run's own spans, and its index in the plan. The offsets of the
// increments are divided into segments; nil means those of the span.
func NewPart(span coverage.Span, ordinal int, increments []coverage.Increment) *Part {
	return &Part{Span: span, Ordinal: ordinal, increments: increments}
}

// New returns the empty state of a share with the given partitions, in order. segment is the number of offsets of a segment.
func New(segment int64, parts ...*Part) *Share {
	s := &Share{Parts: parts, Scores: protocol.NoStage, after: protocol.NoStage}
	for _, part := range parts {
		part.from = len(s.Segments)
		if part.increments == nil {
			for _, span := range part.Span.Segments(segment) {
				s.Segments = append(s.Segments, &Segment{Part: part, Span: span})
			}
		}
		for i := range part.increments {
			s.add(part, &part.increments[i], Segment{Increment: i}, segment)
		}
		part.to = len(s.Segments)
		own := s.Segments[part.from:part.to]
		slices.SortFunc(own, func(a, b *Segment) int { return cmp.Compare(a.Span.From, b.Span.From) })
		for i, segment := range own {
			segment.Index, segment.Last = i, i == len(own)-1
		}
	}
	s.recent, s.staying = len(s.Segments), len(s.Segments)
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
		s.staying = len(s.Segments)
	}
}

// Recent returns the number of leading segments in the run's own spans, which the survey reads.
func (s *Share) Recent() int { return s.recent }

// Staying returns the number of leading segments outside leaving increments, which visits read.
func (s *Share) Staying() int { return s.staying }

// All returns the number of segments.
func (s *Share) All() int { return len(s.Segments) }

// Has reports whether a partition belongs to the share.
func (s *Share) Has(number int) bool {
	return slices.ContainsFunc(s.Parts, func(p *Part) bool { return p.Span.Partition == number })
}

// CoveredOf returns this coverage for a number of leading segments: those of the run's own spans, or all that stay.
func (s *Share) CoveredOf(segments int) coverage.Coverage {
	if segments == s.recent {
		return s.Surveyed
	}
	return s.Covered
}

// ZeroScores sets the scores before stage 0, which are all zero, and clears the votes.
func (s *Share) ZeroScores() {
	s.ClearScores()
	for _, b := range s.batches() {
		clear(b.Votes.Data)
		b.At = 0
	}
	s.Scores = 0
}

// ClearScores sets the scores before the first stage of a member, which are all zero.
func (s *Share) ClearScores() {
	for _, b := range s.batches() {
		clear(b.Score.Data)
	}
}

// BeginPublication invalidates the batches' scores after a stage before they are overwritten.
func (s *Share) BeginPublication() { s.after = protocol.NoStage }

// Published records that the residuals after a stage are published and sealed. If the whole share is in memory, its
// batches have the scores after the stage, and the next stage need not read them.
func (s *Share) Published(stage int) {
	if s.inMemory() {
		s.after = stage
	}
}

// HasScoresAfter reports whether all batches have the scores after a stage.
func (s *Share) HasScoresAfter(stage int) bool { return s.after == stage }

// Advance turns the scores after a stage into the scores before the next one, whose link may have another unit. All
// batches must have the scores after the stage: see [Share.HasScoresAfter].
func (s *Share) Advance(from, to link.Link) {
	scratch := link.Scratch{}
	for _, b := range s.batches() {
		b.Score, b.After, b.Shown = b.After, b.Score, ""
		link.Convert(b.Score, from, to, &scratch)
	}
	s.after = protocol.NoStage
}

// ConvertScores converts the batches' scores from the unit of one link to that of another.
func (s *Share) ConvertScores(from, to link.Link) {
	scratch := link.Scratch{}
	for _, b := range s.batches() {
		link.Convert(b.Score, from, to, &scratch)
	}
}

// BeginResiduals starts recording the residuals offset of each segment of a partition, and clears its batches' votes: once a
// member is finished, they are in the residuals. end is the offset after the partition's last residuals.
func (s *Share) BeginResiduals(part *Part, end int64) {
	for _, segment := range s.Segments[part.from:part.to] {
		for _, b := range segment.batches {
			clear(b.Votes.Data)
		}
		segment.residuals = end
	}
}

// AddResiduals copies the scores and votes of a residuals message of a partition to its batch, if that is in memory, and
// records the residuals offset of the segment. at is the message's offset on the residuals topic. The messages must be in
// the order of the examples. The result is false if the examples message does not belong to the run.
func (s *Share) AddResiduals(part *Part, m *schemas.Residuals, at int64) bool {
	own := s.Segments[part.from:part.to]
	i, _ := slices.BinarySearchFunc(own, m.Offset, func(s *Segment, offset int64) int {
		if s.Span.To <= offset {
			return -1
		}
		return 1
	})
	if i == len(own) {
		return false
	}
	segment := own[i]
	segment.residuals = min(segment.residuals, at)
	from := m.Row * m.Classes
	for _, b := range segment.batches {
		if b.Offset == m.Offset && from+len(m.Score) <= len(b.Score.Data) {
			copy(b.Score.Data[from:], m.Score)
			if m.Votes != nil && b.Votes.Rows > 0 {
				copy(b.Votes.Data[from:], m.Votes)
			}
		}
	}
	return true
}

// EndResiduals completes the offsets: for a segment without residuals, it records the offset of the next segment.
func (s *Share) EndResiduals(part *Part) {
	for i := part.to - 2; i >= part.from; i-- {
		s.Segments[i].residuals = min(s.Segments[i].residuals, s.Segments[i+1].residuals)
	}
}

// inMemory reports whether the whole share is in memory.
func (s *Share) inMemory() bool {
	return !slices.ContainsFunc(s.Segments, func(s *Segment) bool { return s.batches == nil })
}

// DropBlocks drops the blocks of rows in memory, and returns their memory. The rows are kept.
func (s *Share) DropBlocks(cache *Cache) {
	for _, b := range s.batches() {
		b.dropBlock(cache)
	}
}

// Release returns all memory of the share. The share must not be used afterwards.
func (s *Share) Release(cache *Cache) {
	cache.Rest(s.Segments...)
	for _, segment := range s.Segments {
		segment.dropBatches(cache)
	}
}

// batches returns the batches that are in memory.
func (s *Share) batches() (batches []*Batch) {
	for _, segment := range s.Segments {
		batches = append(batches, segment.batches...)
	}
	return batches
}

// Numbers returns the numbers of the partitions of shares.
func Numbers(shares []*Share) (numbers []int) {
	for _, s := range shares {
		for _, part := range s.Parts {
			numbers = append(numbers, part.Span.Partition)
		}
	}
	return numbers
}

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
