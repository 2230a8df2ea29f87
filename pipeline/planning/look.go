package planning

import (
	"cmp"
	"context"
	"errors"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// PrepareOf returns the preparation for a plan of the job, which lists its messages: that of the job, with `auto` scale
// resolved. It is that of the plan from which the run starts or continues, if there is one, otherwise it depends on the first
// of the messages and the stages.
func PrepareOf(ctx context.Context, p *topics.Pipeline, job topics.Job, plan, earlier *schemas.Plan) (schemas.Prepare, error) {
	how := job.Prepare
	if how.Scale != prepare.ScaleAuto {
		return how, nil
	}
	if earlier != nil {
		how.Scale = earlier.Prepare.Scale
		return how, nil
	}
	how.Scale = prepare.ScaleNone
	first, err := LookAt(ctx, p, job, plan)
	if errors.As(err, new(*protocol.NoExamplesError)) {
		return how, nil // the survey reports errors in the messages
	}
	if err != nil {
		return how, err
	}
	if first.Named && !first.Sparse && first.Image == (examples.Image{}) {
		how.Scale = stages.ScaleOf(job.Stages)
	}
	return how, nil
}

// Look is the properties of the examples, from their first message and the job.
type Look struct {
	Named, Sparse bool
	Image         examples.Image // zero: not images
}

// LookAt reads the first message that counts in a plan of the job.
func LookAt(ctx context.Context, p *topics.Pipeline, job topics.Job, plan *schemas.Plan) (l Look, err error) {
	none, damaged := true, error(nil)
	err = EachCounted(ctx, p, plan, true, func(_ int, _ int64, batch *examples.Batch) bool {
		none, l = false, Look{Named: batch.Columns() != "", Sparse: batch.Sparse}
		l.Image, damaged = examples.ParseImage(batch.Image())
		l.Image = cmp.Or(job.Examples.Shape(), l.Image)
		return false
	})
	if err = cmp.Or(err, damaged); err == nil && none {
		err = &protocol.NoExamplesError{Topic: p.Topics.Examples}
	}
	return l, err
}
