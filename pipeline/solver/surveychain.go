package solver

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// surveyedChain is the additional findings of the survey of a chain's run, in all partitions so far.
type surveyedChain struct {
	Skipped    coverage.Spans
	Progress   []schemas.SourceProgress
	Unknown    []examples.LabelRows
	Bad        coverage.BadMessages // of the newest increment
	Messages   []prequentialMessage // of an update
	Served     []statistics.ServedLosses
	Increments []coverage.Increment // of a full run
}

// add adds the findings of a chain's run in a share.
func (f *surveyedChain) add(plan *schemas.Plan, visit surveyedShare) {
	if plan.Chain == nil {
		return
	}
	f.Unknown = examples.AddLabelRows(f.Unknown, visit.Unknown)
	f.Bad.Merge(visit.Bad)
	for i := range visit.Chained {
		f.addPartition(plan, visit.share.Partitions[i], &visit.Chained[i])
	}
}

// addPartition adds the findings of a chain's run in a partition.
func (f *surveyedChain) addPartition(plan *schemas.Plan, partition int, visit *statistics.Chained) {
	f.Skipped = append(f.Skipped, visit.Skipped...)
	for _, p := range visit.Progress {
		f.Progress = advanceSources(f.Progress, partition, p)
	}
	for _, m := range visit.Messages {
		f.Messages = append(f.Messages, prequentialMessage{Partition: partition, MessageLosses: m})
	}
	f.Served = statistics.AddServed(f.Served, visit.Served...)
	if plan.Update() != nil {
		return
	}
	if f.Increments == nil {
		f.Increments = slices.Clone(plan.Chain.Increments)
		if len(f.Increments) == 0 {
			f.Increments = []coverage.Increment{{Number: plan.Chain.Number, Weight: 1}}
		}
		for i := range f.Increments {
			f.Increments[i].Forgotten = 0 // counted again, with the rows of its spans
			f.Increments[i].Covered, f.Increments[i].Skipped, f.Increments[i].Uncounted = nil, nil, false
		}
	}
	for i, covered := range visit.Increments {
		if len(covered.Spans) > 0 && i < len(f.Increments) {
			f.Increments[i].Covered = append(f.Increments[i].Covered, covered)
		}
	}
}

// advanceSources records the progress of a source in a partition.
func advanceSources(progress []schemas.SourceProgress, partition int, p statistics.PartitionProgress) []schemas.SourceProgress {
	i := slices.IndexFunc(progress, func(s schemas.SourceProgress) bool { return s.Source == p.Source && s.Attempt == p.Attempt })
	if i < 0 {
		progress, i = append(progress, schemas.SourceProgress{Source: p.Source, Attempt: p.Attempt}), len(progress)
	}
	next := slices.Clone(progress[i].Next)
	for len(next) <= partition {
		next = append(next, 0)
	}
	next[partition] = max(next[partition], p.Next)
	progress[i].Next = next
	return progress
}

// surveyedSums is the findings of the survey of a chain's run in all partitions.
type surveyedSums struct {
	surveyedChain
	Sum       *accumulate.Sum
	Covered   []coverage.Coverage // of the new increment, by partition
	Forgotten int64               // number of forgotten rows of an update's new increment
}

// surveyed returns the findings of the survey from its sums, and sets the numbers of skipped rows of the increments. It
// returns the zero value for a run outside a chain.
func (f *surveyFindings) surveyed(plan *schemas.Plan, sum *accumulate.Sum) (s surveyedSums) {
	if plan.Chain == nil {
		return s
	}
	s.surveyedChain, s.Sum = f.surveyedChain, sum
	for _, span := range plan.Spans.Hulls() {
		s.Covered = append(s.Covered, f.Covered[span.Partition])
	}
	forgotten := takeForgotten(sum, max(len(s.Increments), 1))
	if plan.Update() != nil {
		s.Forgotten = forgotten[0]
	}
	for i := range s.Increments {
		s.Increments[i].Forgotten = forgotten[i]
		for _, skipped := range s.Skipped {
			covered, _ := s.Increments[i].On(skipped.Partition)
			if slices.ContainsFunc(covered.Spans, func(c coverage.Span) bool { return c.From <= skipped.From && skipped.To <= c.To }) {
				s.Increments[i].Skipped = append(s.Increments[i].Skipped, skipped)
			}
		}
	}
	return s
}

// takeForgotten removes the numbers of forgotten rows from a sum, for each of m increments, and returns them.
func takeForgotten(sum *accumulate.Sum, m int) []int64 {
	rows := make([]int64, m)
	field, _ := sum.Take(statistics.FieldForgotten)
	for i := range min(m, len(field.Data)) {
		rows[i] = int64(field.Data[i])
	}
	return rows
}

// mostlyBad returns the unusable messages among those with new rows if they are the majority, otherwise nil.
func (s *surveyedSums) mostlyBad(plan *schemas.Plan) *coverage.BadMessages {
	if !s.Bad.Most() || len(plan.Added()) == 0 {
		return nil
	}
	return &s.Bad
}
