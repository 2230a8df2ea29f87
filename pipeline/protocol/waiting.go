package protocol

import (
	"context"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Waiting counts the unread messages of a topic. Create one with [NewWaiting].
type Waiting struct {
	log   Log
	topic string
	tails map[int]tail // by partition, from the last call
}

// tail is the unread part of a partition.
type tail struct {
	span           coverage.Span
	checked, empty bool // it was checked for messages; it has none
}

// NewWaiting returns a counter of the unread messages of a topic.
func NewWaiting(log Log, topic string) *Waiting {
	return &Waiting{log: log, topic: topic, tails: map[int]tail{}}
}

// Count returns the number of unread messages, and of partitions. next returns the read position of a partition. Offsets
// without a message, as transactions leave at their ends, count as messages until a second call finds the same.
func (w *Waiting) Count(ctx context.Context, next func(partition int) int64) (messages int64, partitions int, err error) {
	bounds, err := w.log.Spans(ctx, w.topic)
	if err != nil {
		return 0, 0, err
	}
	for n, span := range bounds {
		now := tail{span: coverage.Span{Partition: n, From: max(next(n), span.From), To: span.To}}
		if now.span.From >= now.span.To {
			continue
		}
		if before := w.tails[n]; before.span == now.span {
			if now = before; !now.checked {
				if now.empty, err = Empty(ctx, w.log, w.topic, now.span); err != nil {
					return 0, 0, err
				}
				now.checked = true
			}
		}
		if w.tails[n] = now; !now.empty {
			messages += now.span.Len()
		}
	}
	return messages, len(bounds), nil
}
