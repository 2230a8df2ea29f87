package protocol

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/coverage"
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

// Found is what a partition has in the place of a message that was read before. The zero value means that no message is
// there: the topic is compacted, or the offset is that of an aborted transaction.
type Found int

const (
	// FoundDeleted means that retention has deleted the messages there.
	FoundDeleted Found = iota + 1
	// FoundSame means that the message is there.
	FoundSame
	// FoundOther means that another message is there: the topic has lost messages, or was recreated.
	FoundOther
	// FoundEnd means that the partition ends before the message: the topic has lost messages, or was recreated.
	FoundEnd
)

// Still returns what a partition, with the given bounds, has in the place of a message that was read before. An offset alone
// proves nothing, so is reports whether a message is that message.
func Still(ctx context.Context, log Log, topic string, bounds coverage.Span, offset int64, is func(Message) bool) (found Found, err error) {
	switch {
	case offset >= bounds.To:
		return FoundEnd, nil
	case offset < bounds.From:
		return FoundDeleted, nil
	}
	err = each(ctx, log.Range(topic, bounds.Partition, offset, offset+1), func(m Message) error {
		if found = FoundOther; is(m) {
			found = FoundSame
		}
		return nil
	})
	if errors.As(err, new(*kafkalog.DeletedError)) { // after the bounds were read
		return FoundDeleted, nil
	}
	return found, err
}

// Same reports whether a message is another one, read again. The timestamp distinguishes messages with the same content.
func (m *Message) Same(other *Message) bool {
	return m.Offset == other.Offset && m.Time.Equal(other.Time) && m.Key == other.Key && (m.Value == nil) == (other.Value == nil) &&
		bytes.Equal(m.Value, other.Value) && slices.Equal(m.Headers, other.Headers)
}
