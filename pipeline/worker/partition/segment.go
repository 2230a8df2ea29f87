package partition

import "github.com/stagewise/stagewise/schemas"

// Segment is a fixed range of a partition's offsets: what is summed as one. One goroutine at a time works on a segment.
type Segment struct {
	Span schemas.Span

	messages []Message // as the survey read them, until the first visit has decoded them
	batches  []*Batch  // nil: they are read again
	// residuals is the offset on the residuals topic that the scores of a segment begin at which is not in memory.
	residuals int64
}

// Messages returns what is kept of the segment as it was read; nil if nothing is.
func (s *Segment) Messages() []Message { return s.messages }

// KeepMessages keeps what was read of the segment, if the budget allows.
func (s *Segment) KeepMessages(messages []Message, budget *Budget) {
	if budget.take(ValueBytes(messages)) {
		s.messages = messages
	}
}

// dropMessages gives back what KeepMessages took.
func (s *Segment) dropMessages(budget *Budget) {
	budget.give(ValueBytes(s.messages))
	s.messages = nil
}

// Batches returns the batches that stay in memory between visits; nil if they are read again.
func (s *Segment) Batches() []*Batch { return s.batches }

// KeepBatches keeps the batches of the segment instead of its messages, if the budget allows.
func (s *Segment) KeepBatches(batches []*Batch, budget *Budget) {
	s.dropMessages(budget)
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

// Residuals returns the offset on the residuals topic that the segment's scores begin at.
func (s *Segment) Residuals() int64 { return s.residuals }

// held returns how many bytes the segment's batches take, with as much of their blocks as is of use for so many columns.
func (s *Segment) held(columns int) (bytes int64) {
	for _, b := range s.batches {
		rows := int64(b.Inputs.Rows)
		bytes += rows*rowBytes(b.Inputs.Cols, b.Score.Cols) + min(int64(cap(b.block.Data)), rows*int64(columns))*4
	}
	return bytes
}
