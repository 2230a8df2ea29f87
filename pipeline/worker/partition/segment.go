package partition

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Segment is a fixed range of a partition's offsets whose messages are summed as one. [New] makes segments. One goroutine at a
// time works on a segment.
type Segment struct {
	Span coverage.Span // the offsets
	// Increment is the place of the segment's increment: among those of the plan if the run is full, and in an update among those that it
	// visits, of which the new one is the first, or if Leaves is set among those that leave, of which those with forgotten rows are the last.
	Increment int
	Leaves    bool
	Past      bool // the increment is not of this run's spans

	messages  []Message // as the survey read them, until the first visit has decoded them
	counted   []Counted // what the survey has counted
	batches   []*Batch  // nil: they are read again
	residuals int64     // where the segment's scores begin on the residuals topic
}

// Messages returns what is kept of the segment as it was read; nil if nothing is.
func (s *Segment) Messages() []Message { return s.messages }

// KeepMessages keeps what was read of the segment, if the budget allows, instead of what was kept before.
func (s *Segment) KeepMessages(messages []Message, budget *Budget) {
	s.dropMessages(budget)
	if budget.take(ValueBytes(messages)) {
		s.messages = messages
	}
}

// dropMessages drops what KeepMessages kept, and gives its memory back to the budget.
func (s *Segment) dropMessages(budget *Budget) {
	budget.Give(ValueBytes(s.messages))
	s.messages = nil
}

// Counted is a message that counts in a run.
type Counted struct {
	Offset   int64
	Checksum uint64 // see [Message.Checksum]
}

// SetCounted says which messages of the segment the survey has counted, in the order of their offsets.
func (s *Segment) SetCounted(messages []Counted) { s.counted = messages }

// has reports whether batches are those of the messages that the survey has counted.
func (s *Segment) has(batches []*Batch) bool {
	return s.counted != nil && slices.EqualFunc(s.counted, batches, func(c Counted, b *Batch) bool {
		return c.Offset == b.Offset && c.Checksum == b.Checksum
	})
}

// Batches returns the batches that stay in memory between visits; nil if they are read again.
func (s *Segment) Batches() []*Batch { return s.batches }

// KeepBatches keeps the batches of the segment instead of its messages and of other batches, if the budget allows.
func (s *Segment) KeepBatches(batches []*Batch, budget *Budget) {
	s.dropMessages(budget)
	s.dropBatches(budget)
	bytes := int64(0)
	for _, b := range batches {
		bytes += b.bytes()
	}
	if budget.take(bytes) {
		s.batches = batches
		for _, b := range batches {
			b.kept = true
		}
	}
}

// dropBatches gives back what the batches took, their blocks included.
func (s *Segment) dropBatches(budget *Budget) {
	for _, b := range s.batches {
		budget.Give(b.bytes())
	}
	s.batches = nil
}

// Residuals returns the offset on the residuals topic at which the segment's scores begin.
func (s *Segment) Residuals() int64 { return s.residuals }

// held returns how many bytes the segment's batches take. Of a block it counts no more than a block with that number of columns needs.
func (s *Segment) held(columns int) (bytes int64) {
	for _, b := range s.batches {
		rows := int64(b.Len())
		bytes += rows*rowBytes(b.Inputs.Cols, b.values()) + min(int64(cap(b.block.Data)), rows*int64(columns))*4
	}
	return bytes
}
