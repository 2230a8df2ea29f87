package progress

import (
	"context"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// Read returns the read position of a topic from a partition of the examples: it looks at the last count of
// them, and at more of them until one is of the topic.
func Read(ctx context.Context, client *protocol.Client, topic string, examples coverage.Span, count int64) (state State, err error) {
	for ; ; count *= 2 {
		from := max(examples.From, examples.To-count)
		state = State{}
		err := client.Between(ctx, client.Topics.Examples, examples.Partition, from, examples.To, func(m protocol.Message) error {
			return state.Add(topic, m.Message)
		})
		if err != nil || state.Attempt > 0 || from == examples.From {
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
