package protocol

import (
	"bytes"
	"context"
	"errors"
	"math"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// writtenTogether is the number of messages of a record that are in memory at the same time.
const writtenTogether = 9

// WriteRecord writes the messages of a record to a partition, in any order, and returns the lowest of their offsets.
func WriteRecord[T wire.Number](ctx context.Context, c *Client, topic string, partition int, r *wire.Record[T]) (first int64, err error) {
	var messages []wire.Message
	first = math.MaxInt64
	write := func() error {
		offsets, err := c.Log.Scatter(ctx, topic, partition, messages...)
		for _, at := range offsets {
			first = min(first, at)
		}
		messages = nil
		return err
	}
	for m, err := range r.EachWithin(c.Chunk, c.Memory) {
		if messages = append(messages, m); err == nil && len(messages) == writtenTogether {
			err = write()
		}
		if err != nil {
			return 0, err
		}
	}
	err = write()
	return first, err
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

// Still returns what a partition, with the given bounds, has in the place of a message that was read before. An offset alone proves
// nothing.
func Still(ctx context.Context, log Log, topic string, bounds coverage.Span, mark coverage.Mark) (found Found, err error) {
	switch {
	case mark.Offset >= bounds.To:
		return FoundEnd, nil
	case mark.Offset < bounds.From:
		return FoundDeleted, nil
	}
	for m, err := range between(ctx, log, topic, bounds.Partition, mark.Offset, mark.Offset+1) {
		_, deleted := Deleted(err)
		switch there := MarkOf(bounds.Partition, m); {
		case deleted: // after the bounds were read
			return FoundDeleted, nil
		case errors.As(err, new(*kafkalog.DeletedError)):
			return FoundEnd, nil
		case err != nil:
			return found, err
		case there.Checksum == "" || there == mark:
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
