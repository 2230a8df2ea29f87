package planning

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// errFound stops reading.
var errFound = errors.New("found")

// EachCounted calls do with the examples of each message that counts in a plan's spans, by partition and offset, with forgotten rows
// blanked, until do returns false. It passes over messages that retention has deleted if expired, and otherwise returns a
// *[kafkalog.DeletedError] for them.
func EachCounted(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan, expired bool,
	do func(partition int, offset int64, batch *examples.Batch) (more bool)) error {
	topic, read := plan.Topic, p.Between
	if topic == "" {
		topic = p.Topics.Examples
	}
	if expired {
		read = p.Remaining
	}
	counting, noLabels := protocol.NewCounting(plan), layout.MissingLabels(plan)
	for _, hull := range plan.Spans.Hulls() {
		replay := counting.Replay(hull)
		for _, span := range plan.Spans.On(hull.Partition) {
			err := read(ctx, topic, span.Partition, span.From, span.To, func(m protocol.Message) error {
				if replay.AcceptAt(m.Offset, m.Message) != "" {
					return nil
				}
				batch, err := p.Codec.DecodeExamples(m.Value)
				if err != nil {
					return nil // quarantined by the run
				}
				defer batch.Release()
				if !do(span.Partition, m.Offset, batch.MissLabels(noLabels).Without(plan.Forgotten, span.Partition, m.Offset)) {
					return errFound
				}
				return nil
			})
			if errors.Is(err, errFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read examples %s[%d]: %w", topic, span.Partition, err)
			}
		}
	}
	return nil
}
