package pipeline

import (
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// topicState is how far the messages of a partition of the examples have read a topic that ingest follows: a fold over these messages. The
// zero value has read nothing.
type topicState struct {
	attempt    int   // counts how often the topic was read anew or behind what it has lost, from 1; 0: there is no message
	next       int64 // the sequence of the next message
	partitions int   // the topic's partition q goes to partition q mod partitions of the examples; 0: not known
	positions  []schemas.TopicPosition
	after      string // what an attempt comes after that has written nothing yet: see schemas.Origin
}

// add takes a message into account. Only one of the topic that counts changes the state: it is ingest.Replay's rule.
func (s *topicState) add(topic string, m schemas.Message) error {
	o, ok := schemas.OriginOf(m)
	if !ok || o.Source != schemas.TopicSource(topic) || !o.CountsAfter(s.attempt, s.next, s.attempt > 0) {
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
	*s = topicState{attempt: attempt, next: o.Next, partitions: o.Partitions, positions: positions}
	return nil
}

// divisor returns over how many partitions of the examples the topic's are divided, as the partition numbered n has them; 0: its messages do
// not tell.
func (s *topicState) divisor(n int) (partitions int) {
	if s.partitions > 0 {
		return s.partitions
	}
	for _, p := range s.positions { // an earlier program did not write it, but n, n + partitions, n + 2 partitions, …
		for rest := p.Partition - n; rest > 0; {
			partitions, rest = rest, partitions%rest
		}
	}
	return partitions
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

// position returns how far a partition of the topic was read.
func (s *topicState) position(partition int) schemas.TopicPosition {
	for _, p := range s.positions {
		if p.Partition == partition {
			return p
		}
	}
	return schemas.TopicPosition{Partition: partition}
}
