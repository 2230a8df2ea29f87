package protocol

import (
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
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
	at, found := slices.BinarySearchFunc(s.Positions, to.Partition, func(p schemas.TopicPosition,
		partition int) int {
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
