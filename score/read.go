package score

import (
	"context"
	"errors"
	"iter"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// Read returns the predictions of a partition that count, in the order of their messages. Arrow allocates from mem. nil means Go's
// allocator.
func Read(ctx context.Context, log protocol.Log, topic string, partition int, mem memory.Allocator) iter.Seq2[*schemas.Prediction, error] {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return func(yield func(*schemas.Prediction, error) bool) {
		first, end, err := log.Bounds(ctx, topic, partition)
		if err == nil {
			var state schemas.Scored
			begun := false
			client := &protocol.Client{Log: log}
			err = client.Between(ctx, topic, partition, first, end, func(m protocol.Message) error {
				p, err := schemas.DecodePrediction(m.Message, mem)
				if err != nil { // another program wrote it
					return nil
				}
				if !begun { // what came before may have expired
					begun, state = true, p.Begins()
				}
				if state.Count(p) && !yield(p, nil) {
					return errEnough
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}
