package progress

import (
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// State is how far the messages of a partition of the examples have read a topic that ingest follows: a fold over these messages. The
// zero value has read nothing.
type State struct {
	Attempt    int   // counts how often the topic was read anew or behind what it has lost, from 1; 0: there is no message
	Next       int64 // the sequence of the next message
	Partitions int   // the topic's partition q goes to partition q mod Partitions of the examples; 0: not known
	Positions  []schemas.TopicPosition
	After      string // what an attempt comes after that has written nothing yet: see [schemas.Origin]
	// Joined is how far rows of the topic were joined with their outcomes; nil: they do not wait for any.
	Joined *examples.Joined
}

// Add takes a message into account. Only one of the topic that counts changes the state: it is counting.Replay's rule.
func (s *State) Add(topic string, m wire.Message) error {
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
	*s = State{Attempt: attempt, Next: o.Next, Partitions: o.Partitions, Positions: positions, Joined: joined}
	return nil
}

// Divisor returns over how many partitions of the examples the topic's are divided, as the partition numbered n has
// them; 0: its messages do not tell.
func (s *State) Divisor(n int) (partitions int) {
	if s.Partitions > 0 {
		return s.Partitions
	}
	for _, p := range s.Positions { // an earlier program did not write it, but n, n + partitions, n + 2 partitions, …
		for rest := p.Partition - n; rest > 0; {
			partitions, rest = rest, partitions%rest
		}
	}
	return partitions
}

// Raise takes over a position, unless the state is further.
func (s *State) Raise(to schemas.TopicPosition) {
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

// Position returns how far a partition of the topic was read.
func (s *State) Position(partition int) schemas.TopicPosition {
	for _, p := range s.Positions {
		if p.Partition == partition {
			return p
		}
	}
	return schemas.TopicPosition{Partition: partition}
}
