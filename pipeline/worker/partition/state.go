package partition

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/residuals"
)

// State is what a worker holds of one partition. [New] makes states. A state belongs to one goroutine, but for its segments, each
// of which one goroutine at a time may work on, and for what is covered, which doesn't change once it is set.
type State struct {
	span     coverage.Span
	ordinal  int
	segments []*Segment
	recent   int               // how many segments, the first ones, are of the span
	staying  int               // how many segments, the first ones, are not of increments that leave
	grams    int               // the stages before this one have published their Gram matrices, in an update
	known    bool              // whether the next two are set
	surveyed coverage.Coverage // by the survey
	covered  coverage.Coverage // by it, and by the plan of an update
	visited  protocol.Visit    // the last whose sums are published
	scores   int               // the stage that the batches have the scores before, or run.NoStage
	after    int               // the stage whose scores after it the batches have, or run.NoStage
}

// New returns the state of a span with nothing in memory. segment is the number of offsets in a segment. ordinal is the place of the
// span in the plan, counted from 0.
func New(span coverage.Span, ordinal int, segment int64) *State {
	s := &State{span: span, ordinal: ordinal, scores: protocol.NoStage, after: protocol.NoStage}
	for _, part := range span.Segments(segment) {
		s.segments = append(s.segments, &Segment{Span: part})
	}
	s.recent, s.staying = len(s.segments), len(s.segments)
	return s
}

// Cut cuts the spans of increments into segments, in the order of their offsets, and notes of which increment each is.
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

// AddPast adds the segments of an increment that an update visits again, or that leaves; its place is counted as [Segment] says. Increments
// that leave come last.
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

// Recent returns how many segments, the first ones, are of the run's own span: those that the survey reads.
func (s *State) Recent() int { return s.recent }

// Staying returns how many segments, the first ones, are not of increments that leave: those that visits read.
func (s *State) Staying() int { return s.staying }

// All returns how many segments there are.
func (s *State) All() int { return len(s.segments) }

// Partition returns the number of the partition.
func (s *State) Partition() int { return s.span.Partition }

// Span returns the offsets of the run on the partition.
func (s *State) Span() coverage.Span { return s.span }

// Ordinal returns the place of the span in the plan.
func (s *State) Ordinal() int { return s.ordinal }

// Segments returns the segments, in order.
func (s *State) Segments() []*Segment { return s.segments }

// LastRecent reports whether a segment, given by its index, is the last of the run's own span.
func (s *State) LastRecent(segment int) bool { return segment == s.recent-1 }

// Covered returns what the survey, and the plan of an update, have covered of the partition: later visits must cover the same.
func (s *State) Covered() coverage.Coverage { return s.covered }

// CoveredOf returns what they have covered of so many segments, the first ones: of the run's own span, or of all that stay.
func (s *State) CoveredOf(segments int) coverage.Coverage {
	if segments == s.recent {
		return s.surveyed
	}
	return s.covered
}

// SetCovered says what the survey has covered, and what it and the plan of an update have. All calls but the first do nothing:
// another goroutine may be comparing the Gram matrix of a later stage with it.
func (s *State) SetCovered(surveyed, all coverage.Coverage) {
	if !s.known {
		s.known, s.surveyed, s.covered = true, surveyed, all
	}
}

// Visited returns the visit whose sums the worker has published last.
func (s *State) Visited() protocol.Visit { return s.visited }

// SetVisited says that the sums of a visit are published. The zero visit says that none are, so they are made and published
// again.
func (s *State) SetVisited(v protocol.Visit) { s.visited = v }

// HasGram reports whether the Gram matrix of a stage of an update is published.
func (s *State) HasGram(stage int) bool { return stage < s.grams }

// SetGrams says that the Gram matrices of so many stages, the first ones, are published.
func (s *State) SetGrams(stages int) { s.grams = stages }

// HasScores reports whether the batches have the scores before a stage.
func (s *State) HasScores(stage int) bool { return s.scores == stage }

// SetScores says that the batches have the scores before a stage, or none that count if stage is [protocol.NoStage].
func (s *State) SetScores(stage int) { s.scores = stage }

// ZeroScores gives the batches the scores before stage 0, which are all zero. No member has voted.
func (s *State) ZeroScores() {
	s.ClearScores()
	for _, b := range s.batches() {
		clear(b.Votes.Data)
		b.At = 0
	}
	s.scores = 0
}

// ClearScores makes the batches' scores those before the first stage of a member, which are all zero.
func (s *State) ClearScores() {
	for _, b := range s.batches() {
		clear(b.Score.Data)
	}
}

// BeginPublication says that the batches' scores after a stage are about to be written: those that they had no longer count.
func (s *State) BeginPublication() { s.after = protocol.NoStage }

// Published says that the residuals after a stage are published and sealed. If all of the partition is in memory, its batches
// have the scores after the stage, and nothing has to be read for the next one.
func (s *State) Published(stage int) {
	if s.inMemory() {
		s.after = stage
	}
}

// HasScoresAfter reports whether all batches have the scores after a stage.
func (s *State) HasScoresAfter(stage int) bool { return s.after == stage }

// Advance makes the scores after a stage the scores before the next one, whose link may have another unit. All batches must
// have the scores after the stage: see [State.HasScoresAfter].
func (s *State) Advance(from, to link.Link) {
	scratch := link.Scratch{}
	for _, b := range s.batches() {
		b.Score, b.After, b.Shown = b.After, b.Score, ""
		link.Convert(b.Score, from, to, &scratch)
	}
	s.after = protocol.NoStage
}

// ConvertScores changes the batches' scores from the unit of one link to that of another.
func (s *State) ConvertScores(from, to link.Link) {
	scratch := link.Scratch{}
	for _, b := range s.batches() {
		link.Convert(b.Score, from, to, &scratch)
	}
}

// BeginResiduals starts to note where the residuals of each segment begin, and takes the batches' votes away: the
// residuals say them, once a member is finished. end is the offset after the partition's last.
func (s *State) BeginResiduals(end int64) {
	for _, b := range s.batches() {
		clear(b.Votes.Data)
	}
	for _, segment := range s.segments {
		segment.residuals = end
	}
}

// AddResiduals copies a part of a message's scores and votes to its batch, if that is in memory, and notes where the residuals of the
// segment begin. at is the part's offset on the residuals topic. Parts come in the order of the examples. The result is false if
// the examples message is not of the run.
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

// EndResiduals says that all parts were added. The residuals of a segment that has none begin where those of the next do.
func (s *State) EndResiduals() {
	for i := len(s.segments) - 2; i >= 0; i-- {
		s.segments[i].residuals = min(s.segments[i].residuals, s.segments[i+1].residuals)
	}
}

// inMemory reports whether nothing of the partition has to be read again.
func (s *State) inMemory() bool {
	return !slices.ContainsFunc(s.segments, func(s *Segment) bool { return s.batches == nil })
}

// MissingBytes returns how many more bytes of the budget are needed to have in memory all rows, each of which becomes as many as each
// says, and their blocks, given the numbers of inputs, of values of [Batch.values] and of columns of the block. ok is
// false if a part of the partition would have to be read first.
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

// DropMessages drops what was read and not yet decoded, and gives its memory back to the budget.
func (s *State) DropMessages(budget *Budget) {
	for _, segment := range s.segments {
		segment.dropMessages(budget)
	}
}

// DropBlocks drops the blocks of rows in memory, and gives their memory back to the budget. The rows stay.
func (s *State) DropBlocks(budget *Budget) {
	for _, b := range s.batches() {
		b.dropBlock(budget)
	}
}

// Release gives back to the budget all that the partition took. The state must not be used afterwards.
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
