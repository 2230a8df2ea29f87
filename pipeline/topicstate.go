package pipeline

import (
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// topicState is how far the messages of a partition of the examples have read a topic that ingest follows: a fold over these messages. The
// zero value has read nothing.
type topicState struct {
	attempt   int   // counts how often the topic was made anew, from 1; 0: there is no message
	next      int64 // the sequence of the next message
	positions []schemas.TopicPosition
}

// add takes a message into account. Only one of the topic that counts changes the state: it is ingest.Replay's rule.
func (s *topicState) add(topic string, m schemas.Message) error {
	o, ok := schemas.OriginOf(m)
	if !ok || o.Source != schemas.TopicSource(topic) {
		return nil
	}
	attempt, err := strconv.Atoi(o.Attempt)
	if err != nil || attempt < s.attempt || attempt == s.attempt && o.Sequence < s.next {
		return nil
	}
	positions, err := schemas.TopicPositionsOf(m)
	if err != nil {
		return err
	}
	*s = topicState{attempt, o.Next, positions}
	return nil
}

// raise takes over a position, unless the state is further.
func (s *topicState) raise(to schemas.TopicPosition) {
	at, found := slices.BinarySearchFunc(s.positions, to.Partition, func(p schemas.TopicPosition, partition int) int { return p.Partition - partition })
	switch {
	case !found:
		s.positions = slices.Insert(slices.Clone(s.positions), at, to)
	case s.positions[at].Next < to.Next:
		s.positions = slices.Clone(s.positions)
		s.positions[at] = to
	}
}

// of returns how far a partition of the topic was read.
func (s *topicState) of(partition int) (next int64) {
	for _, p := range s.positions {
		if p.Partition == partition {
			return p.Next
		}
	}
	return 0
}
