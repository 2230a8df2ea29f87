package pipeline

import (
	"slices"
	"sync"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// share is what a worker holds of one partition.
type share struct {
	span     schemas.Span
	ordinal  int // of the span in the plan
	segments []*segment
	covered  schemas.Coverage      // by the survey: later visits must cover the same
	visited  visit                 // that the worker has published last
	entered  int                   // the stage that the batches have the scores before, or unknown
	seals    map[int]*schemas.Seal // by stage
	sealed   int                   // the stage whose scores the batches have as theirs after it, or unknown
}

// inMemory tells whether nothing of the share has to be read again.
func (s *share) inMemory() bool {
	return !slices.ContainsFunc(s.segments, func(s *segment) bool { return s.batches == nil })
}

// segments is how many shares have.
func segments(shares []*share) (n int) {
	for _, s := range shares {
		n += len(s.segments)
	}
	return n
}

// segment is a fixed range of a partition's offsets: what is summed as one.
type segment struct {
	span    schemas.Span
	raw     []raw    // what the survey read of it, if the budget allowed, until the first visit has decoded it
	batches []*batch // those that stay in memory between visits; nil: they are read again
	// residuals is the offset on the residuals topic from which the scores of a
	// segment that is not kept can be read.
	residuals int64
}

// keep leaves what was read of the segment in memory, if the budget allows.
func (s *segment) keep(messages []raw, b *budget) {
	if b.take(rawBytes(messages)) {
		s.raw = messages
	}
}

// drop gives back what keep took.
func (s *segment) drop(b *budget) {
	b.give(rawBytes(s.raw))
	s.raw = nil
}

func rawBytes(messages []raw) (bytes int64) {
	for _, r := range messages {
		bytes += int64(len(r.message.Value))
	}
	return bytes
}

// batch is the rows of one accepted examples message.
type batch struct {
	offset   int64
	checksum uint64
	inputs   kernel.Dense // n × m, prepared
	rows     accumulate.Rows
	fitted   []float32    // weights of the rows that are fitted, 0 for others
	score    kernel.Dense // n × k before the stage, in the unit of its link
	after    kernel.Dense // n × k after the stage, once it is published
	kept     bool         // in memory between visits, so that its block may be too
	block    kernel.Dense // n × p of stage blockOf, if the budget allows
	blockOf  int
}

// release gives back what the share took of the budget: it is not to be used
// after that.
func (s *share) release(b *budget) {
	for _, segment := range s.segments {
		segment.drop(b)
		for _, one := range segment.batches {
			b.give(int64(one.inputs.Rows)*rowBytes(one.inputs.Cols, one.score.Cols) + int64(4*cap(one.block.Data)))
		}
		segment.batches = nil
	}
}

// budget shares out the memory that a worker may use for what it could also
// read or compute again.
type budget struct {
	mutex sync.Mutex
	left  int64
}

// take tells whether so many bytes are granted.
func (b *budget) take(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if bytes > b.left {
		return false
	}
	b.left -= bytes
	return true
}

// has tells whether so many bytes would be granted.
func (b *budget) has(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return bytes <= b.left
}

// give returns what was taken.
func (b *budget) give(bytes int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.left += bytes
}

// rowBytes is what a kept row takes: its inputs, its scores before and after, and its label,
// weights and split.
func rowBytes(inputs, classes int) int64 { return int64(4*inputs + 2*4*classes + 16) }

// divide cuts a partition's span into segments.
func divide(span schemas.Span, ordinal int, length int64) *share {
	s := &share{span: span, ordinal: ordinal, seals: map[int]*schemas.Seal{}, sealed: unknown, entered: unknown}
	for _, part := range span.Segments(length) {
		s.segments = append(s.segments, &segment{span: part})
	}
	return s
}
