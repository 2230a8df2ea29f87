package solver

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/solver/prequential"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// chainFindings is what the survey of a run of a chain finds beside what any survey finds, in all partitions so far.
type chainFindings struct {
	skipped    coverage.Spans
	progress   []schemas.SourceProgress
	unknown    []examples.LabelRows
	bad        coverage.BadMessages  // of the newest increment
	messages   []prequential.Message // of an update
	served     []statistics.ServedLosses
	increments []coverage.Increment // of a full run
}

// add adds what the survey found in a partition. The order of partitions is in the result.
func (f *chainFindings) add(plan *schemas.Plan, partition int, visit *statistics.SurveyVisit) {
	f.skipped = append(f.skipped, visit.Skipped...)
	f.unknown = examples.AddLabelRows(f.unknown, visit.Unknown)
	f.bad.Merge(visit.Bad)
	for _, p := range visit.Progress {
		f.progress = advance(f.progress, partition, p)
	}
	for _, m := range visit.Messages {
		f.messages = append(f.messages, prequential.Message{Partition: partition, MessageLosses: m})
	}
	f.served = statistics.AddServed(f.served, visit.Served...)
	if plan.Update() != nil {
		return
	}
	if f.increments == nil {
		f.increments = slices.Clone(plan.Chain.Increments)
		if len(f.increments) == 0 {
			f.increments = []coverage.Increment{{Number: plan.Chain.Number, Weight: 1}}
		}
		for i := range f.increments {
			f.increments[i].Covered, f.increments[i].Skipped, f.increments[i].Uncounted = nil, nil, false
		}
	}
	for i, covered := range visit.Increments {
		if len(covered.Spans) > 0 && i < len(f.increments) {
			f.increments[i].Covered = append(f.increments[i].Covered, covered)
		}
	}
}

// advance notes how far a source is counted in a partition.
func advance(progress []schemas.SourceProgress, partition int, p statistics.PartitionProgress) []schemas.SourceProgress {
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

// surveyed is what the survey of a run of a chain has found in all partitions.
type surveyed struct {
	chainFindings
	sum         *accumulate.Sum
	covered     []coverage.Coverage // of the new increment, by partition
	termsPlaces []int               // of a full run: see [schemas.Chain.TermsPlaces]
}

// newSurveyed returns what the survey of a run has found, and notes in the increments what each has skipped; nothing if the run is of no
// chain.
func newSurveyed(plan *schemas.Plan, sum *accumulate.Sum, found *findings) (s surveyed) {
	if plan.Chain == nil {
		return s
	}
	for _, span := range plan.Spans.Hulls() {
		visit := found.visits[span.Partition]
		found.chainFindings.add(plan, span.Partition, &visit)
		s.covered = append(s.covered, visit.Covered)
	}
	s.chainFindings, s.sum = found.chainFindings, sum
	if plan.Update() == nil {
		s.termsPlaces = plan.Chain.TermsPlaces()
	}
	for i := range s.increments {
		for _, skipped := range s.skipped {
			covered, _ := s.increments[i].On(skipped.Partition)
			if slices.ContainsFunc(covered.Spans, func(c coverage.Span) bool { return c.From <= skipped.From && skipped.To <= c.To }) {
				s.increments[i].Skipped = append(s.increments[i].Skipped, skipped)
			}
		}
	}
	return s
}

// mostlyBad returns the messages with the new rows if most of them can't be used, otherwise nil.
func (s *surveyed) mostlyBad(plan *schemas.Plan) *coverage.BadMessages {
	if !s.bad.Most() || len(plan.Added()) == 0 {
		return nil
	}
	return &s.bad
}
