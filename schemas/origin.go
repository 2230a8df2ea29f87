package schemas

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Origin identifies an examples message as a message of an ingested source. It is encoded in the headers.
type Origin struct {
	Source   string // ID of the source: see [SourceSeal]
	Attempt  string // of the source's ingest
	Sequence int64  // 0, 1, …: its number in the source; of a topic that ingest follows, see [TopicSequence]
	Next     int64  // of a topic that ingest follows: the sequence after the message; 0 for a file
	// Partitions is set for a followed topic: its partition q goes to partition q mod Partitions of the examples, even if partitions were
	// added since. 0: unknown.
	Partitions int
	// After is set for the first message of an attempt to read a topic in a partition of the examples: the [Turn] of the last valid message
	// before it. The message is valid only after that one. Empty: unknown.
	After string
}

// The headers of an ingested message. Other producers write to the same topic with headers of their own, so these names have a unique
// prefix.
const (
	headerSource   = "stagewise-source"
	headerSequence = "stagewise-sequence"
	headerSchema   = "stagewise-schema"
)

// SourceName returns the name of an ingest of a source. The messages of the source have it in a header.
func SourceName(id, attempt string) string { return id + "/" + attempt }

// Message encodes rows as the examples message of that origin. Errors are those of [examples.Encode], with the origin.
func (o Origin) Message(rows *examples.Rows, mem memory.Allocator) (wire.Message, error) {
	record := rows.Record(mem)
	defer record.Release()
	value, err := examples.Encode(record, mem)
	if err != nil {
		return wire.Message{}, fmt.Errorf("encode examples of source %s, sequence %d: %w", wire.Digest(o.Source).Short(), o.Sequence, err)
	}
	source := SourceName(o.Source, o.Attempt)
	return wire.Message{
		Key: fmt.Sprintf("%s/%d", source, o.Sequence), Value: value,
		Headers: []wire.Header{
			{Key: headerSchema, Value: wire.Fingerprint(record.Schema())}, {Key: headerSource, Value: source}, {Key: headerSequence,
				Value: strconv.FormatInt(o.Sequence, 10)},
		},
	}, nil
}

// OriginOf decodes the origin of an examples message. ok is false if the message has no valid origin, because another
// producer wrote it.
func OriginOf(m wire.Message) (o Origin, ok bool) {
	o.Source, o.Attempt, ok = strings.Cut(m.Get(headerSource), "/")
	if !ok {
		return Origin{}, false
	}
	sequence, err := strconv.ParseInt(m.Get(headerSequence), 10, 64)
	if err != nil || sequence < 0 {
		return Origin{}, false
	}
	o.Sequence = sequence
	if IsTopicSource(o.Source) {
		o.Next, err = strconv.ParseInt(m.Get(headerNext), 10, 64)
		if err != nil || o.Next <= o.Sequence {
			return Origin{}, false
		}
		o.After = m.Get(headerAfter)
		if o.Partitions, err = strconv.Atoi(m.Get(headerPartitions)); err != nil || o.Partitions < 0 {
			o.Partitions = 0
		}
	}
	return o, true
}

// Of reports whether the message is of the sealed source.
func (o Origin) Of(s *SourceSeal) bool { return o.Source == s.ID && o.Attempt == s.Attempt }

// KindOrigins is the kind of an [Origins] message.
const KindOrigins wire.Kind = "origins"

// Origins describes the messages of a span of the examples topic, all of which ingest has made from a followed topic. With the
// messages of that topic, ingest can make them again.
type Origins struct {
	Span     coverage.Span `json:"span"`     // an offset without a stub holds no message
	First    map[int]int64 `json:"first"`    // by partition of the followed topic: first offset whose rows are in the span
	Template []byte        `json:"template"` // examples message without rows; it has the columns of those in the span
	Stubs    []Stub        `json:"stubs"`    // in the order of their offsets
}

// Stub is an examples message without its value.
type Stub struct {
	Offset   int64         `json:"offset"`
	Time     int64         `json:"time"` // timestamp in milliseconds since 1970
	Key      string        `json:"key"`
	Headers  []wire.Header `json:"headers"`
	Checksum string        `json:"checksum"` // of the value: see [ForgetChecksum]
	// Unkeyed is the checksum of the value without the keys of source messages, which an archive may lack or encode in another way.
	Unkeyed string `json:"unkeyed,omitempty"` // empty: that of the value
}

// Message encodes the origins for the origins topic.
func (o *Origins) Message() wire.Message {
	return wire.JSONMessage(KindOrigins, "", fmt.Sprintf("origins/%d/%d", o.Span.Partition, o.Span.From), o)
}

// Check returns an error for stubs that are outside of the span, or not in order.
func (o *Origins) Check() error {
	next := o.Span.From
	for i := range o.Stubs {
		at := o.Stubs[i].Offset
		if at < next || at >= o.Span.To {
			return fmt.Errorf("a message at offset %d of %v, expected one at %d or later", at, o.Span, next)
		}
		next = at + 1
	}
	return coverage.Check(coverage.Spans{o.Span})
}

// SchemaOf returns the fingerprint of the schema of an ingested examples message.
func SchemaOf(m wire.Message) string { return m.Get(headerSchema) }
