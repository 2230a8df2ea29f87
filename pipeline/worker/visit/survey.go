package visit

import (
	"context"
	"errors"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
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
