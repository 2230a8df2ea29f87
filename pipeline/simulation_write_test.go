package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/wire"
)

// request is a write that is on its way to the log, while its client has given it up. It arrives in a later step.
type request struct {
	topic     string
	partition int
	messages  []wire.Message
	arrives   int // the step
}

// maxDelay is for how many steps a request may be under way.
const maxDelay = 600

// delay lets a request arrive later. It was sent for the first time in the given step.
func (l actorLog) delay(topic string, partition, sent int, messages []wire.Message) {
	arrives := l.step + 1 + l.random.IntN(max(1, sent+maxDelay-l.step))
	l.delayed = append(l.delayed, request{topic, partition, messages, arrives})
}

// deliver applies the requests that arrive until a step. They come after what others have written meanwhile.
func (l *simLog) deliver(until int) {
	for i := 0; i < len(l.delayed); {
		r := l.delayed[i]
		if r.arrives > until {
			i++
			continue
		}
		l.delayed = slices.Delete(l.delayed, i, i+1)
		if r.partition >= len(l.topics[r.topic]) {
			continue // the topic is deleted
		}
		l.happen(lateRequest, "%d messages for %s[%d] arrive late", len(r.messages), r.topic, r.partition)
		l.apply(r.topic, r.partition, r.messages)
	}
}

// apply writes the messages of a request, and returns the offset of the first.
func (l *simLog) apply(topic string, partition int, messages []wire.Message) (first int64) {
	for i, m := range messages {
		if offset := l.write(topic, partition, m); i == 0 {
			first = offset
		}
	}
	return first
}

// answerLost reports whether the answer to a write is lost. Half of the time the actor then pauses for as long as a request
// may take, while the others go on.
func (l actorLog) answerLost() bool {
	if !l.chance(0.05) {
		return false
	}
	l.count(lostAnswer)
	if l.chance(0.5) {
		l.self().paused = l.random.IntN(maxDelay)
	}
	return true
}

// errRefused is why the log refuses a write.
var errRefused = errors.New("this process may not write")

// Append writes the messages in one or more requests. A request whose answer is lost is written again; it may itself arrive before
// that, or much later. If the actor is killed, its request may still arrive. A refused request never does.
func (l actorLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (base int64, err error) {
	for base = -1; len(messages) > 0; {
		n := len(messages)
		if l.chance(0.3) {
			n = 1 + l.random.IntN(n)
		}
		var first int64
		sent := l.step
		for again := true; again; {
			if err := l.giveWay(ctx); err != nil {
				if l.chance(0.3) {
					l.delay(topic, partition, sent, messages[:n])
				}
				return base, err
			}
			if l.chance(0.002) {
				l.happen(refusal, "a write of %s to %s[%d] is refused", l.name, topic, partition)
				return base, &kafkalog.AccessError{Err: errRefused, Check: "the ACLs"}
			}
			if again = l.answerLost(); again && l.chance(0.5) {
				l.delay(topic, partition, sent, messages[:n])
				continue
			}
			first = l.apply(topic, partition, messages[:n])
		}
		if base < 0 {
			base = first
		}
		messages = messages[n:]
	}
	return base, l.giveWay(ctx)
}

// Scatter writes the messages in random order, and returns the offsets of those that were given.
func (l actorLog) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) ([]int64, error) {
	order, offsets := make([]int, len(messages)), make([]int64, len(messages))
	for i := range order {
		order[i] = i
	}
	if l.random != nil {
		l.random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	for _, i := range order {
		var err error
		if offsets[i], err = l.Append(ctx, topic, partition, messages[i]); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}
