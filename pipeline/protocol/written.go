package protocol

import (
	"bytes"
	"context"
	"errors"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
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
}

// NewWritten returns a record of a partition without known messages.
func NewWritten(id wire.Identity, topic string, partition int) *Written {
	return &Written{Identity: id, topic: topic, partition: partition}
}

// Add adds a message of the record after it is read.
func (w *Written) Add(m Message) { w.messages = append(w.messages, writtenMessageOf(m)) }

func writtenMessageOf(m Message) writtenMessage {
	return writtenMessage{m.Offset, m.Key, m.Digest(), m.Checksum()}
}

// writtenTogether is the number of messages of a record that are in memory at the same time.
const writtenTogether = 9

// WriteRecord writes the messages of a record to a partition, in any order, and returns their places.
func WriteRecord[T wire.Number](ctx context.Context, c *Client, topic string, partition int, r *wire.Record[T]) (*Written, error) {
	w := NewWritten(r.Identity, topic, partition)
	var messages []wire.Message
	write := func() error {
		offsets, err := c.Log.Scatter(ctx, topic, partition, messages...)
		for i, at := range offsets {
			w.Add(Message{Message: messages[i], Offset: at})
		}
		messages = nil
		return err
	}
	for m, err := range r.EachWithin(c.Chunk, c.Memory) {
		if messages = append(messages, m); err == nil && len(messages) == writtenTogether {
			err = write()
		}
		if err != nil {
			return nil, err
		}
	}
	return w, write()
}

// Holds reports whether a topic still has a record where a reader finds it that starts at the given offsets, by partition: each message at
// its offset, with the same bytes. Retention may have deleted messages, or an unclean leader election may have lost them, after which other
// messages may have their offsets, and records of a run offsets before its start.
func (c *Client) Holds(ctx context.Context, w *Written, begins []int64) (bool, error) {
	first, end, err := c.Log.Bounds(ctx, w.topic, w.partition)
	if w.partition < len(begins) {
		first = max(first, begins[w.partition])
	}
	bounds := coverage.Span{Partition: w.partition, From: first, To: end}
	for _, m := range w.messages {
		found := FoundSame
		if err == nil {
			found, err = still(ctx, c.Log, w.topic, bounds, m.offset, func(there Message) bool { return writtenMessageOf(there) == m })
		}
		if err != nil || found != FoundSame {
			return false, err
		}
	}
	return true, err
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

// MarkOf returns the mark of a message of a partition, by which [Still] recognizes it. The mark of a message that only an archive has
// lacks a checksum, since its bytes may differ.
func MarkOf(partition int, m Message) coverage.Mark {
	mark := coverage.Mark{Partition: partition, Offset: m.Offset}
	if m.File == "" {
		mark.Checksum = schemas.MessageChecksum(m.Message, m.Time.UnixMilli())
	}
	return mark
}

// Still returns what a partition, with the given bounds, has in the place of a message that was read before.
func Still(ctx context.Context, log Log, topic string, bounds coverage.Span, mark coverage.Mark) (Found, error) {
	return still(ctx, log, topic, bounds, mark.Offset, func(m Message) bool {
		there := MarkOf(bounds.Partition, m)
		return there.Checksum == "" || there == mark
	})
}

// still is [Still] with a function that reports whether a message is the one that was read. An offset alone proves nothing.
func still(ctx context.Context, log Log, topic string, bounds coverage.Span, offset int64, is func(Message) bool) (found Found, err error) {
	switch {
	case offset >= bounds.To:
		return FoundEnd, nil
	case offset < bounds.From:
		return FoundDeleted, nil
	}
	for m, err := range between(ctx, log, topic, bounds.Partition, offset, offset+1) {
		_, deleted := Deleted(err)
		switch {
		case deleted: // after the bounds were read
			return FoundDeleted, nil
		case errors.As(err, new(*kafkalog.DeletedError)):
			return FoundEnd, nil
		case err != nil:
			return found, err
		case is(m):
			return FoundSame, nil
		}
		found = FoundOther
	}
	return found, nil
}

// Own returns the message with a copy of its value. A message that was read keeps its whole fetch response in memory.
func (m Message) Own() Message {
	m.Value = bytes.Clone(m.Value)
	return m
}
