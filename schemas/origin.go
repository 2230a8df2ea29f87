package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Origin identifies an examples message as a message of an ingested source. It is encoded in the headers.
type Origin struct {
	Source   string // ID of the source: see [SourceSeal]
	Attempt  string // of the source's ingest
	Sequence int64  // 0, 1, …: its number in the source; of a topic that ingest follows, see [Origin.TopicMessage]
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

// A followed topic is a source without an end, and so without a seal. Its messages have the position up to which the topic was read before
// them and with them. A message is valid if it begins where the valid messages before it end.

const (
	// topicSource begins the ID of a source that is a topic. The ID of a file is a digest.
	topicSource = "topic:"
	// headerNext is the sequence of the message that comes after this one in its partition.
	headerNext = "stagewise-next"
	// headerPositions is the position up to which the topic was read.
	headerPositions = "stagewise-positions"
	// headerPartitions and headerAfter are Partitions and After of an [Origin].
	headerPartitions = "stagewise-partitions"
	headerAfter      = "stagewise-after"
	// headerTime is the latest timestamp of the messages of the topic with the rows of an examples message.
	headerTime = "stagewise-time"
	// headerLacking are the optional columns that most of its rows lack, although earlier rows had them.
	headerLacking = "stagewise-lacking"
)

// Turn identifies the messages that an attempt to read a topic wrote to a partition of the examples, up to a sequence; 0, 0: none.
func Turn(attempt int, next int64) string { return fmt.Sprintf("%d/%d", attempt, next) }

// CountsAfter reports whether a message of a topic is valid in a partition of the examples, given the attempt of the
// last valid message of the topic there, and the sequence next after it. known is false if that message, or its
// existence, is unknown.
func (o Origin) CountsAfter(attempt int, next int64, known bool) bool {
	own, err := strconv.Atoi(o.Attempt)
	switch {
	case err != nil, own < 1:
		return false
	case !known:
		return true
	case own < attempt, own == attempt && o.Sequence < next:
		return false
	}
	return own == attempt || o.After == "" || o.After == Turn(attempt, next)
}

// TopicSource returns the ID of the source that is a topic.
func TopicSource(topic string) string { return topicSource + topic }

// IsTopicSource reports whether a source with this ID is a followed topic.
func IsTopicSource(id string) bool { return strings.HasPrefix(id, topicSource) }

// TopicOf returns the topic that an examples message was read from; false if it was not read from a topic.
func TopicOf(m wire.Message) (topic string, ok bool) {
	o, ok := OriginOf(m)
	if !ok || o.Next == 0 {
		return "", false
	}
	return strings.CutPrefix(o.Source, topicSource)
}

// TopicPosition is the position up to which ingest has read a partition of a followed topic.
type TopicPosition struct {
	Partition int    `json:"partition"`
	Next      int64  `json:"next"` // offset after the last message read
	Last      string `json:"last"` // checksum of the last message read, to identify the topic: see [MessageChecksum]; empty: unknown
}

// TopicMessage encodes rows as an examples message of a followed topic. positions are the positions after the rows, of all partitions of
// the topic that go to the message's partition of the examples. The sequence of the next message is the sum of their offsets, or Next if
// that is higher. Errors are those of [examples.Encode].
func (o Origin) TopicMessage(positions []TopicPosition, rows *examples.Rows, mem memory.Allocator) (wire.Message, error) {
	m, err := o.Message(rows, mem)
	if err != nil {
		return wire.Message{}, err
	}
	sum := int64(0) // of the offsets: each message increases one of them
	for _, p := range positions {
		sum += p.Next
	}
	m.Headers = append(m.Headers, wire.Header{Key: headerNext, Value: strconv.FormatInt(max(o.Next, sum), 10)},
		wire.Header{Key: headerPositions, Value: string(wire.JSON(positions))})
	if rows.Origins != nil {
		m.Headers = append(m.Headers, rows.Origins.Header())
	}
	if o.Partitions > 0 {
		m.Headers = append(m.Headers, wire.Header{Key: headerPartitions, Value: strconv.Itoa(o.Partitions)})
	}
	if o.After != "" {
		m.Headers = append(m.Headers, wire.Header{Key: headerAfter, Value: o.After})
	}
	return m, nil
}

// TimeHeader returns the header with the latest timestamp of a topic's messages that an examples message was made from, in
// milliseconds since 1970. The examples message's own timestamp is the time of its ingest, on which retention depends.
func TimeHeader(time int64) wire.Header {
	return wire.Header{Key: headerTime, Value: strconv.FormatInt(time, 10)}
}

// TimeOf returns the time of the rows of an examples message in milliseconds since 1970: the time of the messages that ingest made it
// from, otherwise its own timestamp.
func TimeOf(m wire.Message, written int64) int64 {
	if time, err := strconv.ParseInt(m.Get(headerTime), 10, 64); err == nil {
		return time
	}
	return written
}

// LackingHeader returns the header with the optional columns that most rows of an examples message lack, although earlier
// rows had them.
func LackingHeader(columns []string) wire.Header {
	text, _ := json.Marshal(columns) // texts can't fail
	return wire.Header{Key: headerLacking, Value: string(text)}
}

// LackingOf returns the columns of [LackingHeader]; nil: none.
func LackingOf(m wire.Message) (columns []string) {
	if text := m.Get(headerLacking); text == "" || json.Unmarshal([]byte(text), &columns) != nil {
		return nil
	}
	return columns
}

// TopicPositionsOf decodes the positions up to which ingest had read a topic when it wrote a message. An error wraps [wire.ErrDamaged].
func TopicPositionsOf(m wire.Message) (positions []TopicPosition, err error) {
	text := m.Get(headerPositions)
	if err := json.Unmarshal([]byte(text), &positions); err != nil {
		return nil, fmt.Errorf("%w: header %s is %s: %w", wire.ErrDamaged, headerPositions, stream.Quote(text), err)
	}
	for _, p := range positions {
		if p.Partition < 0 || p.Next < 0 {
			return nil, fmt.Errorf("%w: header %s is %s, expected partitions and offsets of at least 0", wire.ErrDamaged, headerPositions,
				stream.Quote(text))
		}
	}
	return positions, nil
}
