package protocol

import (
	"context"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// lookBack is the number of messages that are searched for the progress of a join.
const lookBack = 16

// ReadJoined returns what was counted when the messages of spans of the examples were joined; nil if they were not joined with outcomes.
// Only the counts, the limit and the keys are set, the counts in a single cursor.
func ReadJoined(ctx context.Context, client *Client, spans coverage.Spans) (*examples.Joined, error) {
	var all *examples.Joined
	for _, hull := range spans.Hulls() {
		last, err := joinedBefore(ctx, client, hull.Partition, hull.To)
		if err != nil {
			return nil, err
		}
		if last == nil {
			continue
		}
		first, err := joinedBefore(ctx, client, hull.Partition, hull.From)
		if err != nil {
			return nil, err
		}
		counts, shared := last.Counts()
		before, _ := first.Counts()
		if all == nil {
			all = &examples.Joined{Joins: make([]examples.JoinCursor, 1)}
		}
		all.Joins[0].Counts, all.Limit = all.Joins[0].Counts.Plus(counts.Since(before), shared), last.Limit
		if last.RowKey != "" {
			all.RowKey, all.OutcomeKey = last.RowKey, last.OutcomeKey
		}
	}
	return all, nil
}

// joinedBefore returns the progress of the join at an offset of a partition; nil if there is none among the last messages.
func joinedBefore(ctx context.Context, client *Client, partition int, offset int64) (*examples.Joined, error) {
	first, _, err := client.Log.Bounds(ctx, client.Topics.Examples, partition)
	if err != nil || first >= offset {
		return nil, err
	}
	topic := ""
	err = client.Between(ctx, client.Topics.Examples, partition, max(first, offset-lookBack), offset, func(m Message) error {
		if t, ok := schemas.TopicOf(m.Message); ok {
			topic = t
		}
		return nil
	})
	if err != nil || topic == "" {
		return nil, err
	}
	state, err := ReadTopicProgress(ctx, client, topic, coverage.Span{Partition: partition, From: first, To: offset}, lookBack)
	return state.Joined, err
}
