package page

import (
	"context"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// sourceTopic is the position up to which the source topic was ingested. It belongs to the goroutine that polls topics.
type sourceTopic struct {
	waiting *protocol.Waiting
	ends    []int64                  // by partition of the examples, when its state was read
	states  []protocol.TopicProgress // the same
}

// pollSource returns how many messages of the topic wait, given the offsets of the examples.
func (r *reader) pollSource(ctx context.Context, examples []coverage.Span) (int64, error) {
	s := &r.source
	if s.waiting == nil {
		s.waiting = protocol.NewWaiting(r.client.Log, r.options.Source)
	}
	for n, span := range examples {
		if n < len(s.ends) && s.ends[n] == span.To {
			continue
		}
		if n >= len(s.ends) {
			s.ends, s.states = append(s.ends, -1), append(s.states, protocol.TopicProgress{})
		}
		// One message says it but for those that a process writes that others have overtaken, and then the next one says it.
		state, err := protocol.ReadTopicProgress(ctx, r.client, r.options.Source, span, 1)
		if err != nil {
			return 0, lacks("Read", r.client.Topics.Examples, err)
		}
		s.ends[n], s.states[n] = span.To, state
	}
	read := protocol.MergeTopicProgress(s.states)
	messages, _, err := s.waiting.Count(ctx, func(partition int) int64 {
		return max(read.Position(partition).Next, r.quarantinedBefore(partition))
	})
	return messages, lacks("Read", r.options.Source, err)
}

// quarantinedBefore returns the offset after the last message of a partition of the source topic that is in quarantine,
// as far as that was read. No example says that such a message was read.
func (r *reader) quarantinedBefore(partition int) int64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.quarantine.read[topicPartition{r.options.Source, partition}]
}
