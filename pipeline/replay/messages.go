package replay

import (
	"context"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/counting"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// eachMessage calls do with the messages that a run has counted, in the order of the topic, until it returns false. Those that the run has
// put into quarantine as they can't be decoded are left out. The batch is valid during the call.
func eachMessage(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan,
	do func(partition int, offset int64, batch *examples.Batch) bool) error {
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
				continue // the run has put the message into quarantine
			}
			more = do(span.Partition, message.Offset, batch.MissLabels(noLabels))
			batch.Release()
			if !more {
				r.Close()
				return nil
			}
		}
		r.Close()
	}
	return nil
}

// forgottenIn returns which rows of a message a run has forgotten.
func forgottenIn(plan *schemas.Plan, partition int, offset int64, rows int) []bool {
	forgotten := make([]bool, rows)
	plan.Forgotten.In(partition, offset, rows, func(first, end int) {
		for i := first; i < end; i++ {
			forgotten[i] = true
		}
	})
	return forgotten
}

// readRows reads the features of a message into raw, which it reshapes, as a model has them. It returns false if the model has others: the
// run has put the message into quarantine.
func readRows(raw *kernel.Dense, batch *examples.Batch, m *model.Model) bool {
	if batch.Sparse || batch.Width != m.Width() || batch.Align(m.Columns()) != nil {
		return false
	}
	raw.Reshape(batch.Rows, batch.Width)
	if bytes := batch.Bytes(); bytes != nil {
		kernel.FromBytes(raw.Data, bytes)
	} else {
		batch.Features(raw.Data, batch.Width)
	}
	return true
}
