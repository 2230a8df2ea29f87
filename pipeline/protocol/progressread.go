package protocol

import (
	"context"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// ReadTopicProgress returns the read position in a topic from a partition of the examples: from at least the last count messages with
// rows of the topic. The very last may be a late duplicate: then the ones before it have the position. Not every offset
// holds a message, and there are messages of other sources, so it reads more offsets until it has enough.
func ReadTopicProgress(ctx context.Context, client *Client, topic string, examples coverage.Span, count int) (state TopicProgress,
	err error) {
	for offsets := int64(count); ; offsets *= 2 {
		from, messages := max(examples.From, examples.To-offsets), 0
		state = TopicProgress{}
		err := client.Between(ctx, client.Topics.Examples, examples.Partition, from, examples.To, func(m Message) error {
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

// MergeTopicProgress returns the read position in a topic from the states of all examples partitions, in order: that of the last
// attempt.
func MergeTopicProgress(states []TopicProgress) TopicProgress {
	all := TopicProgress{Attempt: 1}
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
		all.Partitions = max(all.Partitions, states[n].Partitions)
	}
	return all
}
