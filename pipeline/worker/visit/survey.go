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
		err = solve.CheckWidth(run.Plan.Prepare.PCA, len(s.first.Shift))
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
func (s *Survey) Processor() Process {
	p := &surveyor{Survey: s, first: s.first, accumulator: accumulate.Accumulator{BLAS: s.BLAS}}
	if s.Plan.Update() != nil {
		p.predictor = s.Earlier.Predictor(s.BLAS)
	}
	if s.offered != nil {
		p.offered = s.offered.Predictor(s.BLAS)
	}
	return p.segment
}

// Records returns the records of the survey of a share, which it takes apart. A run that keeps the preparation of a version has no sample
// of rows. identity returns the identity of the record of a kind.
func (s *Survey) Records(o *Outcome, identity func(wire.Kind) wire.Identity) (sample *wire.Record[float32], visit *wire.Record[float64]) {
	first, f := s.first, o.Found
	if s.Plan.Prepares() {
		sample = o.Sample.Record(identity(statistics.KindSample)).Record()
	}
	if n := len(first.Shift); s.Plan.Prepares() && s.Plan.Prepare.PCA > 0 {
		o.Sum.Field(statistics.FieldGram, n*(n+1)/2) // publish a zero matrix even without rows
	}
	maps.DeleteFunc(f.Untrained, func(label string, rows int64) bool { return rows == 0 || f.Labels[label] > 0 })
	v := statistics.SurveyVisit{
		Visit:  statistics.Visit{Identity: identity(statistics.KindVisit), Covered: o.Sum.Coverage.Summary(), Sums: o.Sum.Tensors()},
		Common: first.Common, Findings: *f, Sparse: first.shape.Sparse,
	}
	return sample, v.Record()
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

// unknownReason returns the reason for rows with unknown labels, which a chain excludes until there are enough of them.
func unknownReason(unknown statistics.LabelSet) string {
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(unknown)) {
		labels = append(labels, fmt.Sprintf("%q", label))
	}
	return fmt.Sprintf("rows of %s %s are left out: no class of the version before", english.PluralWord(len(labels), "label", ""),
		named(labels))
}
