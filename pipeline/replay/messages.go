package replay

import (
	"context"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/counting"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// eachMessage calls do for each examples message that a run has counted, in the order of its spans, until do returns
// false. The error may be a *[kafkalog.DeletedError] if retention has deleted examples of the run.
func eachMessage(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan,
	do func(batch *examples.Batch, partition int, offset int64) (more bool)) error {
	topic := plan.Topic
	if topic == "" {
		topic = p.Topics.Examples
	}
	counting, noLabels := counting.New(plan), layout.MissingLabels(plan)
	for _, span := range plan.Spans {
		replay := counting.Replay(span)
		r := p.Log.Range(topic, span.Partition, span.From, span.To)
		for more := true; more; {
			message, err := r.Next(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				r.Close()
				return fmt.Errorf("read examples %s[%d]: %w", topic, span.Partition, err)
			}
			if replay.AcceptAt(message.Offset, message.Message) != "" {
				continue
			}
			batch, err := p.Codec.DecodeExamples(message.Value)
			if err != nil {
				continue // quarantined by the run
			}
			if more = do(batch.MissLabels(noLabels), span.Partition, message.Offset); !more {
				batch.Release()
				r.Close()
				return nil
			}
			batch.Release()
		}
		r.Close()
	}
	return nil
}

// forgottenRows reports, for each row of a message, whether the run excludes it as forgotten.
func forgottenRows(plan *schemas.Plan, batch *examples.Batch, partition int, offset int64) []bool {
	forgotten := make([]bool, batch.Rows)
	plan.Forgotten.In(partition, offset, batch.Rows, func(first, end int) {
		for i := first; i < end; i++ {
			forgotten[i] = true
		}
	})
	return forgotten
}

// readRaw copies the features of a message's dense rows (n × d).
func readRaw(raw *kernel.Dense, batch *examples.Batch) {
	raw.Reshape(batch.Rows, batch.Width)
	if bytes := batch.Bytes(); bytes != nil {
		kernel.FromBytes(raw.Data, bytes)
	} else {
		batch.Features(raw.Data, batch.Width)
	}
}
