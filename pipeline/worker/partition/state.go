package partition

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/residuals"
)

// State is a worker's state of one partition. Create states with [New]. A state is not safe for concurrent use, except
// that each segment may be used by another goroutine, and that the coverage does not change once it is set.
type State struct {
	span     coverage.Span
	ordinal  int
	segments []*Segment
	recent   int               // number of leading segments in the span
	staying  int               // number of leading segments outside leaving increments
	grams    int               // in an update, number of stages with published Gram matrices
	known    bool              // whether surveyed and covered are set
	surveyed coverage.Coverage // coverage of the survey
	covered  coverage.Coverage // coverage of the survey and of an update's plan
	visited  protocol.Visit    // last visit with published sums
	scores   int               // stage before which the batches have the scores, or protocol.NoStage
	after    int               // stage after which the batches have the scores, or protocol.NoStage
}

// New returns an empty state of a span. segment is the number of offsets of a segment. ordinal is the index of the span in
// the plan.
func New(span coverage.Span, ordinal int, segment int64) *State {
	s := &State{span: span, ordinal: ordinal, scores: protocol.NoStage, after: protocol.NoStage}
	for _, part := range span.Segments(segment) {
		s.segments = append(s.segments, &Segment{Span: part})
	}
	s.recent, s.staying = len(s.segments), len(s.segments)
	return s
}

// Cut divides the spans of increments into segments, in offset order, and records the increment of each.
func (s *State) Cut(increments []coverage.Increment, segment int64) {
	s.segments = nil
	for i := range increments {
		covered, _ := increments[i].On(s.span.Partition)
		for _, span := range covered.Spans {
			for _, part := range span.Segments(segment) {
				s.segments = append(s.segments, &Segment{Span: part, Increment: i})
			}
		}
	}
	slices.SortFunc(s.segments, func(a, b *Segment) int { return cmp.Compare(a.Span.From, b.Span.From) })
	s.recent, s.staying = len(s.segments), len(s.segments)
}

// AddPast adds the segments of an increment that an update revisits, or that leaves; for place see [Segment]. Leaving
// increments come last.
func (s *State) AddPast(increment *coverage.Increment, place int, leaves bool, segment int64) {
	covered, _ := increment.On(s.span.Partition)
	for _, span := range covered.Spans {
		for _, part := range span.Segments(segment) {
			s.segments = append(s.segments, &Segment{Span: part, Increment: place, Leaves: leaves, Past: true})
		}
	}
	if !leaves {
		s.staying = len(s.segments)
	}
}

// Recent returns the number of leading segments in the run's own span, which the survey reads.
func (s *State) Recent() int { return s.recent }

// Staying returns the number of leading segments outside leaving increments, which visits read.
func (s *State) Staying() int { return s.staying }

// All returns the number of segments.
func (s *State) All() int { return len(s.segments) }

// Partition returns the number of the partition.
func (s *State) Partition() int { return s.span.Partition }

// Span returns the offset range of the run on the partition.
func (s *State) Span() coverage.Span { return s.span }

// Ordinal returns the index of the span in the plan.
func (s *State) Ordinal() int { return s.ordinal }

// Segments returns the segments, in order.
func (s *State) Segments() []*Segment { return s.segments }

// LastRecent reports whether a segment, by index, is the last one in the run's own span.
func (s *State) LastRecent(segment int) bool { return segment == s.recent-1 }

// Covered returns the coverage of the survey and of an update's plan: later visits must cover the same messages.
func (s *State) Covered() coverage.Coverage { return s.covered }

// CoveredOf returns this coverage for a number of leading segments: those of the run's own span, or all that stay.
func (s *State) CoveredOf(segments int) coverage.Coverage {
	if segments == s.recent {
		return s.surveyed
	}
	return s.covered
}

// SetCovered sets the coverage of the survey, and that of the survey and an update's plan. Only the first call has an
// effect: another goroutine may be comparing the Gram matrix of a later stage with it.
func (s *State) SetCovered(surveyed, all coverage.Coverage) {
	if !s.known {
		s.known, s.surveyed, s.covered = true, surveyed, all
	}
}

// Visited returns the last visit with published sums.
func (s *State) Visited() protocol.Visit { return s.visited }

// SetVisited records that the sums of a visit are published. The zero visit means that none are, so that they are computed
// and published again.
func (s *State) SetVisited(v protocol.Visit) { s.visited = v }

// HasGram reports whether the Gram matrix of an update's stage is published.
func (s *State) HasGram(stage int) bool { return stage < s.grams }

// SetGrams records the number of leading stages with published Gram matrices.
func (s *State) SetGrams(stages int) { s.grams = stages }

// HasScores reports whether the batches have the scores before a stage.
func (s *State) HasScores(stage int) bool { return s.scores == stage }

// SetScores records that the batches have the scores before a stage, or no valid ones if stage is [protocol.NoStage].
func (s *State) SetScores(stage int) { s.scores = stage }

// ZeroScores sets the scores before stage 0, which are all zero, and clears the votes.
func (s *State) ZeroScores() {
	s.ClearScores()
	for _, b := range s.batches() {
		clear(b.Votes.Data)
		b.At = 0
	}
	s.scores = 0
}

// ClearScores sets the scores before the first stage of a member, which are all zero.
func (s *State) ClearScores() {
	for _, b := range s.batches() {
		clear(b.Score.Data)
	}
}

// BeginPublication invalidates the batches' scores after a stage before they are overwritten.
func (s *State) BeginPublication() { s.after = protocol.NoStage }

// Published records that the residuals after a stage are published and sealed. If the whole partition is in memory, its
// batches have the scores after the stage, and the next stage need not read them.
func (s *State) Published(stage int) {
	if s.inMemory() {
		s.after = stage
	}
}

// HasScoresAfter reports whether all batches have the scores after a stage.
func (s *State) HasScoresAfter(stage int) bool { return s.after == stage }

// Advance turns the scores after a stage into the scores before the next one, whose link may have another unit. All
// batches must have the scores after the stage: see [State.HasScoresAfter].
func (s *State) Advance(from, to link.Link) {
	scratch := link.Scratch{}
	for _, b := range s.batches() {
		b.Score, b.After, b.Shown = b.After, b.Score, ""
		link.Convert(b.Score, from, to, &scratch)
	}
	s.after = protocol.NoStage
}

// ConvertScores converts the batches' scores from the unit of one link to that of another.
func (s *State) ConvertScores(from, to link.Link) {
	scratch := link.Scratch{}
	for _, b := range s.batches() {
		link.Convert(b.Score, from, to, &scratch)
	}
}

// BeginResiduals starts recording the residuals offset of each segment, and clears the batches' votes: once a member is
// finished, they are in the residuals. end is the offset after the partition's last residuals.
func (s *State) BeginResiduals(end int64) {
	for _, b := range s.batches() {
		clear(b.Votes.Data)
	}
	for _, segment := range s.segments {
		segment.residuals = end
	}
}

// AddResiduals copies the scores and votes of a residuals message to its batch, if that is in memory, and records the
// residuals offset of the segment. at is the message's offset on the residuals topic. The messages must be in the order of
// the examples. The result is false if the examples message does not belong to the run.
func (s *State) AddResiduals(part *residuals.Message, at int64) bool {
	i, _ := slices.BinarySearchFunc(s.segments, part.Offset, func(s *Segment, offset int64) int {
		if s.Span.To <= offset {
			return -1
		}
		return 1
	})
	if i == len(s.segments) {
		return false
	}
	segment := s.segments[i]
	segment.residuals = min(segment.residuals, at)
	from := part.Row * part.Classes
	for _, b := range segment.batches {
		if b.Offset == part.Offset && from+len(part.Score) <= len(b.Score.Data) {
			copy(b.Score.Data[from:], part.Score)
			if part.Votes != nil && b.Votes.Rows > 0 {
				copy(b.Votes.Data[from:], part.Votes)
			}
		}
	}
	return true
}

// EndResiduals completes the offsets: for a segment without residuals, it records the offset of the next segment.
func (s *State) EndResiduals() {
	for i := len(s.segments) - 2; i >= 0; i-- {
		s.segments[i].residuals = min(s.segments[i].residuals, s.segments[i+1].residuals)
	}
}

// inMemory reports whether the whole partition is in memory.
func (s *State) inMemory() bool {
	return !slices.ContainsFunc(s.segments, func(s *Segment) bool { return s.batches == nil })
}

// MissingBytes returns the additional memory needed to keep all rows, each augmented to the given number of rows, and
// their blocks, from the numbers of inputs, of [Batch.values] and of columns of the block. ok is false if a part of the
// partition would have to be read first.
func (s *State) MissingBytes(each, inputs, values, columns int) (bytes int64, ok bool) {
	bytes = s.covered.Rows * int64(each) * (rowBytes(inputs, values) + int64(4*columns))
	for _, segment := range s.segments {
		if segment.batches == nil && segment.messages == nil {
			return 0, false
		}
		bytes -= segment.held(columns)
	}
	return bytes, true
}

// DropMessages drops the undecoded messages, and returns their memory to the budget.
func (s *State) DropMessages(budget *Budget) { s.DropMessagesOf(len(s.segments), budget) }

// DropMessagesOf is DropMessages for the first segments.
func (s *State) DropMessagesOf(segments int, budget *Budget) {
	for _, segment := range s.segments[:segments] {
		segment.dropMessages(budget)
	}
}

// DropBlocks drops the blocks of rows in memory, and returns their memory to the budget. The rows are kept.
func (s *State) DropBlocks(budget *Budget) {
	for _, b := range s.batches() {
		b.dropBlock(budget)
	}
}

// Release returns all memory of the partition to the budget. The state must not be used afterwards.
func (s *State) Release(budget *Budget) {
	for _, segment := range s.segments {
		segment.dropMessages(budget)
		segment.dropBatches(budget)
	}
}

// batches returns the batches that are in memory.
func (s *State) batches() (batches []*Batch) {
	for _, segment := range s.segments {
		batches = append(batches, segment.batches...)
	}
	return batches
}

// Numbers returns the numbers of partitions.
func Numbers(partitions []*State) []int {
	numbers := make([]int, len(partitions))
	for i, s := range partitions {
		numbers[i] = s.Partition()
	}
	return numbers
}
