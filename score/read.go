package score

import (
	"context"
	"errors"
	"iter"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/prediction"
)

// Read returns the predictions that count of those that a partition of a topic has now, in the order of the messages
// that they are of. Arrow allocates from mem; nil is Go's memory.
func Read(ctx context.Context, log protocol.Log, topic string, partition int, mem memory.Allocator) iter.Seq2[*prediction.Message, error] {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return func(yield func(*prediction.Message, error) bool) {
		first, end, err := log.Bounds(ctx, topic, partition)
		if err == nil {
			var state prediction.Scored
			begun := false
			client := &protocol.Client{Log: log}
			err = client.Between(ctx, topic, partition, first, end, func(m protocol.Message) error {
				p, err := prediction.Decode(m.Message, mem)
				if err != nil { // it is a stranger's
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
