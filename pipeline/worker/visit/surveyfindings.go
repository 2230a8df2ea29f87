package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Findings are the results of the survey in a segment, or in the merged segments of a share.
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
	messages    []statistics.MessageLosses
	served      []statistics.ServedLosses
	parts       []surveyedPart // in order
}

// surveyedPart is what the survey finds of one partition.
type surveyedPart struct {
	number  int
	covered coverage.Coverage
	chained statistics.Chained
}

// merge adds a later segment of the partition.
func (p *surveyedPart) merge(next *surveyedPart) error {
	c, n := &p.chained, &next.chained
	c.Skipped, c.Messages = append(c.Skipped, n.Skipped...), append(c.Messages, n.Messages...)
	c.Served, c.Progress = statistics.AddServed(c.Served, n.Served...), n.Progress
	for i, covered := range n.Increments {
		if err := c.Increments[i].Merge(covered); err != nil {
			return err
		}
	}
	return p.covered.Merge(next.covered)
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
	return solve.CheckClasses(len(f.labels))
}

func (f *Findings) add(next *Findings) error {
	if err := f.sum.MergeWhole(next.sum, nil, nil); err != nil {
		return err
	}
	f.sample.Merge(next.sample)
	f.labels.Merge(next.labels)
	f.columns.Merge(&next.columns)
	f.passedOver.Add(next.passedOver)
	f.unusable.Merge(next.unusable)
	for label, rows := range next.unknown {
		f.unknown[label] += rows
	}
	for label, rows := range next.untrained {
		f.untrained[label] += rows
	}
	if last := len(f.parts) - 1; f.parts[last].number == next.parts[0].number {
		return f.parts[last].merge(&next.parts[0])
	}
	f.parts = append(f.parts, next.parts...)
	return nil
}

// SurveyRecords are the survey's records of a share.
type SurveyRecords struct {
	Sample *wire.Record[float32] // nil: the run keeps the preparation of a version
	Visit  *wire.Record[float64]
}

// Records returns the records of a share's findings, which it takes apart. identity returns the identity of the record of a kind.
func (s *Survey) Records(f *Findings, identity func(wire.Kind) wire.Identity) (r SurveyRecords) {
	first := s.first
	if s.Plan.Prepares() {
		r.Sample = f.sample.Record(identity(statistics.KindSample)).Record()
	}
	if n := len(first.shift); s.Plan.Prepares() && s.Plan.Prepare.PCA > 0 && !f.sum.HasGram() {
		f.sum.Field(statistics.FieldGram, n*(n+1)/2) // publish a zero matrix even without rows
	}
	visit := statistics.SurveyVisit{
		Visit: statistics.Visit{Identity: identity(statistics.KindVisit), Covered: f.sum.Coverage, Sums: f.sum.Tensors()},
		Shift: first.shift, TargetShift: first.targets, Sparse: first.shape.Sparse, ColumnRows: f.columns.Record(),
		Columns: first.columns, Image: first.image, Labels: f.labels.Text(), Quarantined: int64(f.bad), PassedOver: f.passedOver,
		Unknown: labelRows(f.unknown), Untrained: f.withoutTraining(), Bad: f.unusable,
	}
	for i := range f.parts {
		visit.Parts = append(visit.Parts, f.parts[i].covered)
		if s.Plan.Chain != nil {
			visit.Chained = append(visit.Chained, f.parts[i].chained)
		}
	}
	if s.Plan.Prepares() && len(f.labels) > 0 {
		visit.LabelRows = f.labels.Rows()
	}
	r.Visit = visit.Record()
	return r
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
