package protocol

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Written is a record on a topic, with the offsets and contents of its messages.
type Written struct {
	wire.Identity
	topic     string
	partition int
	messages  []writtenMessage
}

// writtenMessage is a message at an offset.
type writtenMessage struct {
	offset   int64
	key      string
	digest   wire.Digest // digest of the record
	checksum uint32      // checksum of the value
	at       time.Time   // timestamp; zero: unknown
}

// NewWritten returns a record of a partition without known messages.
func NewWritten(id wire.Identity, topic string, partition int) *Written {
	return &Written{Identity: id, topic: topic, partition: partition}
}

// Add adds a message of the record after it is read.
func (w *Written) Add(m Message) { w.messages = append(w.messages, writtenMessageOf(m)) }

// Precedes reports whether a message of the record is before the start offsets of a reader, by partition of the topic:
// after a partition was truncated, a record of a run may have a lower offset than the start of the run.
func (w *Written) Precedes(begins []int64) bool {
	return w.partition < len(begins) && slices.ContainsFunc(w.messages, func(m writtenMessage) bool { return m.offset < begins[w.partition] })
}

func writtenMessageOf(m Message) writtenMessage {
	return writtenMessage{m.Offset, m.Key, m.Digest(), m.Checksum(), m.Time}
}

// is reports whether a message is the one written, or read before, at its offset.
func (w writtenMessage) is(m Message) bool {
	there := writtenMessageOf(m)
	if w.at.IsZero() {
		there.at = w.at
	}
	return w.at.Equal(there.at) && w.offset == there.offset && w.key == there.key && w.digest == there.digest && w.checksum == there.checksum
}

// scatter writes the messages of a record to a partition, in any order.
func (c *Client) scatter(ctx context.Context, id wire.Identity, topic string, partition int,
	batches iter.Seq2[[]wire.Message, error]) (*Written, error) {
	w := NewWritten(id, topic, partition)
	for messages, err := range batches {
		var offsets []int64
		if err == nil {
			offsets, err = c.Log.Scatter(ctx, topic, partition, messages...)
		}
		if err != nil {
			return nil, err
		}
		for i, m := range messages {
			w.Add(Message{Message: m, Offset: offsets[i]})
		}
	}
	return w, nil
}

// Holds reports whether a topic still has a record: each message at its offset, with the same bytes. Retention may have
// deleted messages, or an unclean leader election may have lost them, after which other messages may have their offsets.
func (c *Client) Holds(ctx context.Context, w *Written) (bool, error) {
	messages := slices.Clone(w.messages)
	slices.SortFunc(messages, func(a, b writtenMessage) int { return int(a.offset - b.offset) })
	for len(messages) > 0 {
		n := 1
		for n < len(messages) && messages[n].offset == messages[0].offset+int64(n) {
			n++
		}
		left, there := messages[:n], true
		err := c.Between(ctx, w.topic, w.partition, left[0].offset, left[n-1].offset+1, func(m Message) error {
			there = there && len(left) > 0 && left[0].is(m)
			left = left[min(1, len(left)):]
			return nil
		})
		switch {
		case errors.As(err, new(*kafkalog.DeletedError)), err == nil && (!there || len(left) > 0):
			return false, nil
		case err != nil:
			return false, err
		}
		messages = messages[n:]
	}
	return true, nil
}
