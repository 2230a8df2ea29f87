package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve/survey"
)

// Findings are the results of the survey in a segment, or in the merged segments of a partition.
type Findings struct {
	// Quarantined are the quarantined messages of a segment. For merged segments only their number is kept.
	Quarantined []event.Quarantined
	sum         *accumulate.Sum
	sample      *accumulate.Sample
	labels      accumulate.LabelSet
	columns     accumulate.ColumnRows // of training rows, if they are sparse
	bad         int                   // number of quarantined messages in merged segments
	passedOver  coverage.PassedOver
	unknown     map[string]int64     // numbers of rows with labels that are not classes
	untrained   map[string]int64     // numbers of rows outside the training split, by label
	unusable    coverage.BadMessages // of the newest increment of a chain
	chained     statistics.Chained   // of a chain
}

// Width returns the number of columns of sparse rows and the number of labels.
func (f *Findings) Width() (columns, labels int) { return f.columns.Columns(), len(f.labels) }

// Rows returns the number of rows.
func (f *Findings) Rows() int64 { return f.sum.Rows }

// Merge adds the findings of the next segment to those of the segments before it, if any. It returns an error if there are
// too many classes.
func (f *Findings) Merge(next *Findings) error {
	bad := f.bad + len(next.Quarantined)
	if f.sum == nil {
		*f = *next
		f.Quarantined = nil
	} else if err := f.add(next); err != nil {
		return err
	}
	f.bad = bad
	return survey.CheckClasses(len(f.labels))
}

func (f *Findings) add(next *Findings) error {
	if err := f.sum.MergeWhole(next.sum, nil, nil); err != nil {
		return err
	}
	f.sample.Merge(next.sample)
	f.labels.Merge(next.labels)
	f.columns.Merge(&next.columns)
	f.passedOver.Add(next.passedOver)
	f.chained.Skipped = append(f.chained.Skipped, next.chained.Skipped...)
	f.chained.Messages = append(f.chained.Messages, next.chained.Messages...)
	f.chained.Served = statistics.AddServed(f.chained.Served, next.chained.Served...)
	f.chained.Progress = next.chained.Progress
	f.unusable.Merge(next.unusable)
	for label, rows := range next.unknown {
		f.unknown[label] += rows
	}
	for label, rows := range next.untrained {
		f.untrained[label] += rows
	}
	for i, covered := range next.chained.Increments {
		if err := f.chained.Increments[i].Merge(covered); err != nil {
			return err
		}
	}
	return nil
}

// SurveyRecords are the survey's records of a partition.
type SurveyRecords struct {
	Sample *wire.Record[float32] // nil: the run keeps the preparation of a version
	Visit  *wire.Record[float64]
	Gram   *wire.Record[float64] // nil: the plan has no principal components
}

// Records returns the records of a partition's findings. identity returns the identity of the record of a kind.
func (s *Survey) Records(f *Findings, identity func(wire.Kind) wire.Identity) (r SurveyRecords) {
	sums := s.Sums(f)
	if sums.Sample != nil {
		r.Sample = sums.Sample.Record(identity(statistics.KindSample)).Record()
	}
	if sums.Gram != nil {
		r.Gram = statistics.GramOf(identity(statistics.KindGram), sums.Gram.Tensors()).ExactRecord()
	}
	var chained []statistics.Chained
	if s.Plan.Chain != nil {
		chained = []statistics.Chained{f.chained}
	}
	r.Visit = s.Visit(f, identity(statistics.KindVisit), sums.Sum, chained)
	return r
}

// SurveySums are the findings that are merged in order.
type SurveySums struct {
	Sum    *accumulate.Sum
	Sample *accumulate.Sample // nil: the run keeps the preparation of a version
	Gram   *accumulate.Sum    // nil: the plan asks for no principal components
}

// Sums removes the sums from the findings of a partition, and returns them.
func (s *Survey) Sums(f *Findings) (sums SurveySums) {
	first := s.first
	if s.Plan.Prepares() {
		sums.Sample = f.sample
	}
	if s.Plan.Prepares() && s.Plan.Prepare.PCA > 0 {
		if !f.sum.HasGram() {
			f.sum.Field(statistics.FieldGram, len(first.shift)*(len(first.shift)+1)/2) // publish a zero matrix even without rows
		}
		sums.Gram = f.sum.TakeGram()
	}
	sums.Sum, f.sum, f.sample = f.sum, nil, nil
	return sums
}

// Join adds the findings of another partition after its sums were removed, except those that a chain needs of each partition.
func (f *Findings) Join(o *Findings) {
	if f.labels == nil {
		f.labels, f.untrained, f.unknown = accumulate.LabelSet{}, map[string]int64{}, map[string]int64{}
	}
	f.labels.Merge(o.labels)
	f.columns.MergeWhole(&o.columns)
	f.bad += o.bad
	f.passedOver.Add(o.passedOver)
	f.unusable.Merge(o.unusable)
	for label, rows := range o.untrained {
		f.untrained[label] += rows
	}
	for label, rows := range o.unknown {
		f.unknown[label] += rows
	}
}

// Chained returns what a chain needs of the partition of the findings.
func (f *Findings) Chained() statistics.Chained { return f.chained }

// Visit returns the record of a partition's findings with the given sum, or of merged findings, with the coverage of each
// partition. chained is [Findings.Chained] of each partition; nil outside a chain.
func (s *Survey) Visit(f *Findings, id wire.Identity, sum *accumulate.Sum, chained []statistics.Chained,
	parts ...coverage.Coverage) *wire.Record[float64] {
	first := s.first
	visit := statistics.SurveyVisit{
		Visit: statistics.Visit{Identity: id, Covered: sum.Coverage, Sums: sum.Tensors()}, Parts: parts, Chained: chained,
		Shift: first.shift, TargetShift: first.targets, Sparse: first.shape.Sparse, ColumnRows: f.columns.Record(),
		Columns: first.columns, Image: first.image, Labels: f.labels.Text(), Quarantined: int64(f.bad), PassedOver: f.passedOver,
		Unknown: labelRows(f.unknown), Untrained: f.withoutTraining(), Bad: f.unusable,
	}
	if s.Plan.Prepares() && len(f.labels) > 0 {
		visit.LabelRows = f.labels.Rows()
	}
	return visit.Record()
}

// skippedSpans returns the messages of a segment that do not count: those passed over, and those in quarantine.
func skippedSpans(number int, offsets []int64, bad []schemas.Quarantined) (spans coverage.Spans) {
	offsets = slices.Clone(offsets)
	for _, q := range bad {
		offsets = append(offsets, q.Offset)
	}
	slices.Sort(offsets)
	for _, at := range offsets {
		if last := len(spans) - 1; last >= 0 && spans[last].To == at {
			spans[last].To++
			continue
		}
		spans = append(spans, coverage.Span{Partition: number, From: at, To: at + 1})
	}
	return spans
}
