package visit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
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

// Survey is the survey of a run, shared by its goroutines. It is immutable while they run.
type Survey struct {
	*Run
	offered    *model.Model // the version for subscribers; nil: there is no gate
	first      *first
	none       *protocol.NoExamplesError // nil: some message is usable
	labels     *examples.Labels          // classes of the plan; nil: any label is a class
	quarantine *quarantine
}

// NewSurvey starts a survey: it determines the common properties of all messages. Offered is the version for subscribers, if the run has a
// gate. The error is a *[protocol.NoExamplesError] if no message is usable, unless there are messages to quarantine: then [Survey.Err]
// returns it.
func NewSurvey(ctx context.Context, run *Run, offered *model.Model) (*Survey, error) {
	s := &Survey{Run: run, offered: offered, quarantine: &quarantine{Run: run}}
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
	p := &surveyor{Survey: s, first: s.first, accumulator: accumulate.Accumulator{BLAS: s.BLAS, Buffers: s.Grams}}
	if s.Plan.Update() != nil {
		p.predictor = s.Earlier.Predictor(s.BLAS)
	}
	if s.offered != nil {
		p.offered = s.offered.Predictor(s.BLAS)
	}
	return p.segment
}

// Findings are the results of the survey in a segment, or in the merged segments of a share.
type Findings struct {
	accumulate.Findings
	Sum    *accumulate.Sum
	Events []event.Quarantined // of the messages in quarantine, in a segment
	sample *accumulate.Sample
}

// Merge adds the findings of the next segment.
func (f *Findings) Merge(next *Findings) error {
	if err := f.Sum.MergeWhole(next.Sum, nil, nil); err != nil {
		return err
	}
	f.sample.Merge(next.sample)
	return f.Findings.Merge(&next.Findings)
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
	if n := len(first.shift); s.Plan.Prepares() && s.Plan.Prepare.PCA > 0 && !f.Sum.HasGram() {
		f.Sum.Field(statistics.FieldGram, n*(n+1)/2) // publish a zero matrix even without rows
	}
	maps.DeleteFunc(f.Untrained, func(label string, rows int64) bool { return rows == 0 || f.Labels[label] > 0 })
	visit := statistics.SurveyVisit{
		Visit: statistics.Visit{Identity: identity(statistics.KindVisit), Covered: f.Sum.Coverage, Sums: f.Sum.Tensors()},
		Shift: first.shift, TargetShift: first.targets, Sparse: first.shape.Sparse, ColumnRows: f.ColumnRows.Record(),
		Columns: first.columns, Image: first.image, Labels: f.Labels.Text(), Quarantined: f.Quarantined, PassedOver: f.PassedOver,
		Unknown: f.Unknown.List(), Untrained: f.Untrained.List(), Bad: f.Bad,
	}
	for i := range f.Parts {
		visit.Parts = append(visit.Parts, f.Parts[i].Covered)
		if s.Plan.Chain != nil {
			visit.Chained = append(visit.Chained, f.Parts[i].Chained)
		}
	}
	if s.Plan.Prepares() && len(f.Labels) > 0 {
		visit.LabelRows = f.Labels.Rows()
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

// maxUnknownNamed is the maximum number of labels in a reason.
const maxUnknownNamed = 3

// unknownReason returns the reason for rows with unknown labels, which a chain excludes until there are enough of them.
func unknownReason(unknown accumulate.LabelSet) string {
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
