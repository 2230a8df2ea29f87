package protocol

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/coverage"
)

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
