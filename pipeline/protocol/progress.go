package protocol

import (
	"context"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// TopicProgress is the read position in a followed topic according to the messages of an examples partition: a fold over these
// messages. The zero value has read nothing.
type TopicProgress struct {
	Attempt    int   // number of times that the topic was read from the start, or continued after a change, from 1; 0: no message
	Next       int64 // next sequence number
	Partitions int   // partition q of the topic is written to partition q mod Partitions of the examples; 0: unknown
	Positions  []schemas.TopicPosition
	After      string // predecessor of an attempt that has written nothing yet: see [schemas.Origin]
	// Joined is the position of the join of rows with their outcomes; nil: there is no join.
	Joined *examples.Joined
}

// Add applies a message. Only a valid message of the topic changes the state: see SpanCounting.
func (s *TopicProgress) Add(topic string, m wire.Message) error {
	o, ok := schemas.OriginOf(m)
	if !ok || o.Source != schemas.TopicSource(topic) || !o.CountsAfter(s.Attempt, s.Next, s.Attempt > 0) {
		return nil
	}
	attempt, err := strconv.Atoi(o.Attempt)
	if err != nil {
		return nil
	}
	positions, err := schemas.TopicPositionsOf(m)
	if err != nil {
		return err
	}
	joined, err := examples.JoinedOf(m)
	if err != nil {
		return err
	}
	*s = TopicProgress{Attempt: attempt, Next: o.Next, Partitions: o.Partitions, Positions: positions, Joined: joined}
	return nil
}

// Raise advances the state to a position, unless it is already further.
func (s *TopicProgress) Raise(to schemas.TopicPosition) {
	at, found := slices.BinarySearchFunc(s.Positions, to.Partition, func(p schemas.TopicPosition, partition int) int {
		return p.Partition - partition
	})
	switch {
	case !found:
		s.Positions = slices.Insert(slices.Clone(s.Positions), at, to)
	case s.Positions[at].Next < to.Next:
		s.Positions = slices.Clone(s.Positions)
		s.Positions[at] = to
	}
}

// Position returns the read position in a partition of the topic.
func (s *TopicProgress) Position(partition int) schemas.TopicPosition {
	for _, p := range s.Positions {
		if p.Partition == partition {
			return p
		}
	}
	return schemas.TopicPosition{Partition: partition}
}

// ReadTopicProgress returns the read position in a topic from a partition of the examples: from at least the last count messages with
// rows of the topic. The very last may be a late duplicate: then the ones before it have the position. Not every offset
// holds a message, and there are messages of other sources, so it reads more offsets until it has enough.
func ReadTopicProgress(ctx context.Context, client *Client, topic string, examples coverage.Span, count int) (state TopicProgress,
	err error) {
	for offsets := int64(count); ; offsets *= 2 {
		from, messages := max(examples.From, examples.To-offsets), 0
		state = TopicProgress{}
		for m, err := range client.Between(ctx, client.Topics.Examples, examples.Partition, from, examples.To) {
			if err == nil {
				err = state.Add(topic, m.Message)
			}
			if err != nil {
				return state, err
			}
			if o, ok := schemas.OriginOf(m.Message); ok && o.Source == schemas.TopicSource(topic) {
				messages++
			}
		}
		if messages >= count || from == examples.From {
			return state, nil
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
