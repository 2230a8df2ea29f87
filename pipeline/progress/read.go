package progress

import (
	"context"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// Read returns the read position of a topic from a partition of the examples: it looks at the last messages with rows of the topic, at
// least as many as count says. The very last may be a copy of an earlier one that arrived late: then those before it say how far the topic
// was read. Not every offset has a message, and other sources have messages too, so it looks at more offsets until it has that many.
func Read(ctx context.Context, client *protocol.Client, topic string, examples coverage.Span, count int) (state State, err error) {
	for offsets := int64(count); ; offsets *= 2 {
		from, messages := max(examples.From, examples.To-offsets), 0
		state = State{}
		err := client.Between(ctx, client.Topics.Examples, examples.Partition, from, examples.To, func(m protocol.Message) error {
			if o, ok := schemas.OriginOf(m.Message); ok && o.Source == schemas.TopicSource(topic) {
				messages++
			}
			return state.Add(topic, m.Message)
		})
		if err != nil || messages >= count || from == examples.From {
			return state, err
		}
	}
}

// Merge returns how far all partitions of the examples have read a topic, given their states in order: what those of the last attempt say.
func Merge(states []State) State {
	all := State{Attempt: 1}
	for i := range states {
		all.Attempt = max(all.Attempt, states[i].Attempt)
	}
	for n := range states {
		if states[n].Attempt < all.Attempt {
			continue
		}
		for _, p := range states[n].Positions {
			all.Raise(p)
		}
		all.Partitions = max(all.Partitions, states[n].Divisor(n))
	}
	return all
}
