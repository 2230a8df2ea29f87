package schemas

import (
	"fmt"
	"strconv"
	"strings"
)

// KindQuarantine is the kind of a [Quarantined] message.
const KindQuarantine Kind = "quarantine"

// Quarantined is an examples message that could not be used, where it was, and why.
// It keeps neither the headers that the message had nor more of it than fits.
type Quarantined struct {
	Topic     string
	Partition int
	Offset    int64
	Reason    string
	Key       string // that the message had
	Bytes     int    // how long the message's value was
	Value     []byte // cut to fit
}

// quarantineHeaders is what the headers of a message in quarantine may take. Its
// reason and the key that it had are cut to fit.
const quarantineHeaders = 8 << 10

// QuarantineReason is what people are told of an error about a message.
func QuarantineReason(err error) string { return strings.ToValidUTF8(cutHeader(err.Error()), "") }

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

// QuarantineKey reads the key of a message of the quarantine topic: of which message it is.
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

// QuarantinedOf decodes a message of the quarantine topic. Errors wrap ErrDamaged.
func QuarantinedOf(m Message) (*Quarantined, error) {
	q := &Quarantined{Topic: m.Get("topic"), Reason: m.Get("reason"), Key: m.Get("key"), Value: m.Value}
	if m.Kind() != KindQuarantine {
		return nil, fmt.Errorf("%w: kind %s, expected %s", ErrDamaged, quote(string(m.Kind())), KindQuarantine)
	}
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

func quarantineLayout() Layout {
	return Layout{Kind: KindQuarantine, Topic: "quarantine", Key: "TOPIC/PARTITION/OFFSET", Writer: "worker", Reader: "people, the survey"}
}
