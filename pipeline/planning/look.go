package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// PrepareOf returns the preparation for a plan of the job: that of the job, with `auto` scale resolved. It is that of the
// plan from which the run starts or continues, if there is one, otherwise it depends on the first message of the examples
// and the stages.
func PrepareOf(ctx context.Context, p *topics.Pipeline, job topics.Job, earlier *schemas.Plan) (schemas.Prepare, error) {
	how := job.Prepare
	if how.Scale != prepare.ScaleAuto {
		return how, nil
	}
	if earlier != nil {
		how.Scale = earlier.Prepare.Scale
		return how, nil
	}
	how.Scale = prepare.ScaleNone
	first, err := LookAt(ctx, p, job)
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

// LookAt reads the first decodable message of the examples.
func LookAt(ctx context.Context, p *topics.Pipeline, job topics.Job) (l Look, err error) {
	spans, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return l, err
	}
	for _, span := range spans {
		err := p.Between(ctx, p.Topics.Examples, span.Partition, span.From, span.To, func(m protocol.Message) error {
			batch, err := examples.Decode(m.Value, memory.DefaultAllocator)
			if err != nil {
				return nil // it will be quarantined
			}
			defer batch.Release()
			l = Look{Named: batch.Columns() != "", Sparse: batch.Sparse}
			if l.Image, err = examples.ParseImage(batch.Image()); err != nil {
				return err
			}
			return errFound
		})
		if errors.Is(err, errFound) {
			l.Image = cmp.Or(job.Examples.Shape(), l.Image)
			return l, nil
		}
		if err != nil {
			return l, fmt.Errorf("look at %s[%d]: %w", p.Topics.Examples, span.Partition, err)
		}
	}
	return l, &protocol.NoExamplesError{Topic: p.Topics.Examples, From: ""}
}
