package survey

import (
	"context"
	"errors"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/counting"
	"github.com/stagewise/stagewise/pipeline/worker/decode"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/scan"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve/survey"
)

// Run is the properties of a run that its survey needs.
type Run struct {
	*scan.Source
	Plan    *schemas.Plan
	Rows    *decode.Reader
	BLAS    *kernel.BLAS
	Budget  *partition.Budget // for data kept in memory
	Earlier *model.Model      // the version that the run starts from; nil: none
	Offered *model.Model      // the version for subscribers, if the run has a gate; nil: none
	Buffers *accumulate.BufferPool
}

// Survey is the survey of a run, shared by its goroutines. It is immutable while they run.
type Survey struct {
	*Run
	first      *first
	none       *counting.NoExamplesError // nil: some message is usable
	labels     *examples.Labels          // classes of the plan; nil: any label is a class
	quarantine *quarantine
}

// New starts a survey: it determines the common properties of all messages. The error is a *[counting.NoExamplesError] if
// no message is usable, unless there are messages to quarantine: then [Survey.Err] returns it.
func New(ctx context.Context, run *Run) (*Survey, error) {
	s := &Survey{Run: run, quarantine: &quarantine{client: run.Client, plan: run.Plan}}
	var err error
	s.first, err = s.findFirst(ctx)
	none, _ := errors.AsType[*counting.NoExamplesError](err)
	switch {
	case err == nil && !s.first.shape.Sparse:
		err = survey.CheckWidth(run.Plan.Prepare.PCA, len(s.first.shift))
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

// Err returns a *[counting.NoExamplesError] if no message is usable: the survey then finds nothing, but quarantines all
// messages.
func (s *Survey) Err() error {
	if s.none == nil {
		return nil
	}
	return s.none
}

// Processor returns a function that surveys segments in one goroutine.
func (s *Survey) Processor() func(context.Context, *scan.Load) (*Findings, error) {
	p := &processor{Survey: s, first: s.first, accumulator: accumulate.Accumulator{BLAS: s.BLAS, Buffers: s.Buffers}}
	if s.Plan.Update() != nil {
		p.predictor = s.Earlier.Predictor(s.BLAS)
	}
	if s.Offered != nil {
		p.offered = s.Offered.Predictor(s.BLAS)
	}
	return p.segment
}
