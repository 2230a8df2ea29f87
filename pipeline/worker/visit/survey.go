package visit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// SurveyRun has the properties of a run that its survey needs.
type SurveyRun struct {
	*LoadSource
	Plan    *schemas.Plan
	Rows    *RowReader
	BLAS    *kernel.BLAS
	Earlier *model.Model // the version that the run starts from; nil: none
	Offered *model.Model // the version for subscribers, if the run has a gate; nil: none
	Buffers *accumulate.BufferPool
}

// Survey is the survey of a run, shared by its goroutines. It is immutable while they run.
type Survey struct {
	*SurveyRun
	first      *first
	none       *protocol.NoExamplesError // nil: some message is usable
	labels     *examples.Labels          // classes of the plan; nil: any label is a class
	quarantine *quarantine
}

// NewSurvey starts a survey: it determines the common properties of all messages. The error is a *[protocol.NoExamplesError] if
// no message is usable, unless there are messages to quarantine: then [Survey.Err] returns it.
func NewSurvey(ctx context.Context, run *SurveyRun) (*Survey, error) {
	s := &Survey{SurveyRun: run, quarantine: &quarantine{client: run.Client, plan: run.Plan}}
	var err error
	s.first, err = s.findFirst(ctx)
	none, _ := errors.AsType[*protocol.NoExamplesError](err)
	switch {
	case err == nil && !s.first.shape.Sparse:
		err = solve.CheckWidth(run.Plan.Prepare.PCA, len(s.first.shift))
	case none != nil && none.Bad > 0 && run.Plan.OnBadMessage != schemas.StopOnBadMessage:
		err, s.none = nil, none
	}
	switch {
	case run.Plan.Update() != nil:
		s.labels = examples.NewLabels(run.Earlier.Labels())
	case len(run.Plan.Classes) > 0:
		s.labels = examples.NewLabels(run.Plan.Classes)
	}
	return s, err
}

// Err returns a *[protocol.NoExamplesError] if no message is usable: the survey then finds nothing, but quarantines all
// messages.
func (s *Survey) Err() error {
	if s.none == nil {
		return nil
	}
	return s.none
}

// Processor returns a function that surveys segments in one goroutine.
func (s *Survey) Processor() func(context.Context, *Load) (*Findings, error) {
	p := &surveyor{Survey: s, first: s.first, accumulator: accumulate.Accumulator{BLAS: s.BLAS, Buffers: s.Buffers}}
	if s.Plan.Update() != nil {
		p.predictor = s.Earlier.Predictor(s.BLAS)
	}
	if s.Offered != nil {
		p.offered = s.Offered.Predictor(s.BLAS)
	}
	return p.segment
}

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

// labelRows returns the numbers of rows with labels that are not classes, in label order; nil if there are none.
func labelRows(unknown map[string]int64) (list []examples.LabelRows) {
	for _, label := range slices.Sorted(maps.Keys(unknown)) {
		list = append(list, examples.LabelRows{Label: label, Rows: unknown[label]})
	}
	return list
}

// withoutTraining returns the numbers of rows of the labels without training rows.
func (f *Findings) withoutTraining() []examples.LabelRows {
	maps.DeleteFunc(f.untrained, func(label string, rows int64) bool { return rows == 0 || f.labels[label] > 0 })
	return labelRows(f.untrained)
}

// maxUnknownNamed is the maximum number of labels in a reason.
const maxUnknownNamed = 3

// unknownReason returns the reason for rows with unknown labels, which a chain excludes until there are enough of them.
func unknownReason(unknown map[string]int64) string {
	labels := slices.Sorted(maps.Keys(unknown))
	var named []string
	for _, label := range labels[:min(len(labels), maxUnknownNamed)] {
		named = append(named, fmt.Sprintf("%q", label))
	}
	if more := len(labels) - maxUnknownNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("rows of %s %s are left out: no class of the version before", english.PluralWord(len(labels), "label", ""),
		english.WordSeries(named, "and"))
}
