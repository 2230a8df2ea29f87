package schemas

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindQuarantine is the kind of a [Quarantined] message.
const KindQuarantine wire.Kind = "quarantine"

// Quarantined is an unusable examples message, with its position and the reason. Other headers of the message are not kept.
type Quarantined struct {
	Topic     string `header:"topic"`                 // of the message
	Partition int    `header:"partition"`             // of the message
	Offset    int64  `header:"offset"`                // of the message
	Reason    string `header:"reason"`                // why it is unusable, truncated to 2,048 bytes
	Key       string `header:"key"`                   // of the message, truncated to 2,048 bytes
	Bytes     int    `header:"bytes"`                 // length of the message's complete value
	Trace     string `header:"traceparent,omitempty"` // of the message, if it has one
	Value     []byte // of the message, truncated to fit
}

// quarantineHeaders is the maximum length of the headers of a quarantined message, in bytes. The reason and the key are
// truncated to fit.
const quarantineHeaders = 8 << 10

// QuarantineReason returns the text of an error as the reason of a quarantined message: valid UTF-8 of at most 2,048
// bytes.
func QuarantineReason(err error) string { return strings.ToValidUTF8(cutHeader(err.Error()), "") }

// cutHeader truncates a text to a quarter of quarantineHeaders.
func cutHeader(text string) string { return text[:min(len(text), quarantineHeaders/4)] }

// Message encodes the message for the quarantine topic.
func (q *Quarantined) Message() wire.Message {
	short := *q
	short.Key = cutHeader(q.Key)
	return wire.Message{
		Key:     q.ID(),
		Value:   q.Value[:min(len(q.Value), wire.MaxMessage-quarantineHeaders)],
		Headers: append([]wire.Header{{Key: "kind", Value: string(KindQuarantine)}}, wire.HeadersOf(&short)...),
	}
}

// ID returns the key of the message on the quarantine topic.
func (q *Quarantined) ID() string { return fmt.Sprintf("%s/%d/%d", q.Topic, q.Partition, q.Offset) }

// QuarantinedOf is the inverse of [Quarantined.Message]. An error wraps [wire.ErrDamaged].
func QuarantinedOf(m wire.Message) (*Quarantined, error) {
	if m.Kind() != KindQuarantine {
		return nil, fmt.Errorf("%w: kind %s, expected %s", wire.ErrDamaged, stream.Quote(string(m.Kind())), KindQuarantine)
	}
	q := &Quarantined{Value: m.Value}
	if err := wire.ReadHeaders(m, q); err != nil {
		return nil, err
	}
	return q, nil
}
