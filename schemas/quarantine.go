package schemas

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/stream"
)

// KindQuarantine is the kind of a [Quarantined] message.
const KindQuarantine Kind = "quarantine"

// Quarantined is an examples message that can't be used, with its position and the reason. The headers of the message are
// not kept.
type Quarantined struct {
	Topic     string // of the message
	Partition int
	Offset    int64
	Reason    string // see QuarantineReason
	Key       string // of the message, cut at 2,048 bytes
	Bytes     int    // length of the message's whole value
	Value     []byte // of the message, cut to fit
}

// quarantineHeaders is the maximum length of the headers of a message in quarantine, in bytes. The reason and the key are
// cut to fit.
const quarantineHeaders = 8 << 10

// QuarantineReason returns the text of an error as the reason of a message in quarantine: valid UTF-8 of at most 2,048
// bytes.
func QuarantineReason(err error) string { return strings.ToValidUTF8(cutHeader(err.Error()), "") }

// cutHeader cuts a text to a quarter of what all headers may take.
func cutHeader(text string) string { return text[:min(len(text), quarantineHeaders/4)] }

// Message encodes the message for the quarantine topic.
func (q *Quarantined) Message() Message {
	partition, offset := strconv.Itoa(q.Partition), strconv.FormatInt(q.Offset, 10)
	return Message{
		Key: q.Topic + "/" + partition + "/" + offset, Value: q.Value[:min(len(q.Value), MaxMessage-quarantineHeaders)],
		Headers: []Header{
			{"kind", string(KindQuarantine)}, {"topic", q.Topic}, {"partition", partition}, {"offset", offset},
			{"reason", q.Reason}, {"key", cutHeader(q.Key)}, {"bytes", strconv.Itoa(q.Bytes)},
		},
	}
}

// QuarantineKey reads the position of the examples message from the key of a message of the quarantine topic. It returns
// false for any other key.
func QuarantineKey(key string) (topic string, partition int, offset int64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return "", 0, 0, false
	}
	partition, err := strconv.Atoi(parts[1])
	if err != nil {
		return "", 0, 0, false
	}
	offset, err = strconv.ParseInt(parts[2], 10, 64)
	return parts[0], partition, offset, err == nil
}

// QuarantinedOf is the inverse of [Quarantined.Message]. An error wraps [ErrDamaged].
func QuarantinedOf(m Message) (*Quarantined, error) {
	if m.Kind() != KindQuarantine {
		return nil, fmt.Errorf("%w: kind %s, expected %s", ErrDamaged, stream.Quote(string(m.Kind())), KindQuarantine)
	}
	q := &Quarantined{Topic: m.Get("topic"), Reason: m.Get("reason"), Key: m.Get("key"), Value: m.Value}
	offset, err := m.number("offset")
	if err == nil {
		q.Offset = int64(offset)
		q.Partition, err = m.number("partition")
	}
	if err == nil {
		q.Bytes, err = m.number("bytes")
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}
