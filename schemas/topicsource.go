package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A topic that ingest follows is a source without an end, and so without a seal. Its messages say how far the topic was read before them
// and with them. A message counts if what it begins with was not counted yet.

const (
	// topicSource begins the ID of a source that is a topic. The ID of a file is a digest.
	topicSource = "topic:"
	// headerNext is the sequence of the message that comes after this one in its partition.
	headerNext = "stagewise-next"
	// headerPositions says how far the topic was read.
	headerPositions = "stagewise-positions"
	// headerPartitions and headerAfter are Partitions and After of an [Origin].
	headerPartitions = "stagewise-partitions"
	headerAfter      = "stagewise-after"
)

// Turn names what an attempt to read a topic has written to a partition of the examples up to a sequence; 0, 0: nothing was written.
func Turn(attempt int, next int64) string { return fmt.Sprintf("%d/%d", attempt, next) }

// CountsAfter reports whether a message of a topic counts in a partition of the examples whose last message of the
// topic that counts is of an attempt and ends before the sequence next. known is false if it is not known which message
// that is, or whether there is one.
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

// IsTopicSource reports whether a source with this ID is a topic that ingest follows.
func IsTopicSource(id string) bool { return strings.HasPrefix(id, topicSource) }

// TopicOf returns the topic that a message of the examples was read from; false if it was not read from a topic.
func TopicOf(m wire.Message) (topic string, ok bool) {
	o, ok := OriginOf(m)
	if !ok || o.Next == 0 {
		return "", false
	}
	return strings.CutPrefix(o.Source, topicSource)
}

// TopicPosition is how far ingest has read a partition of a topic that it follows.
type TopicPosition struct {
	Partition int         `json:"partition"`
	Next      int64       `json:"next"` // the offset after the last that was read
	Last      wire.Digest `json:"last"` // of the message that was read last, its time included, to recognise the topic by; empty: not known
}

// TopicSequence returns the sequence of the message that comes after those that have these positions: the sum of the offsets, as each
// message raises one of them.
func TopicSequence(positions []TopicPosition) (sequence int64) {
	for _, p := range positions {
		sequence += p.Next
	}
	return sequence
}

// TopicMessage encodes rows as an examples message of a topic that ingest follows. positions are those after the rows, of all partitions
// of the topic that go to the message's partition of the examples; Next may be above their sum. Errors are those of [examples.Encode].
func (o Origin) TopicMessage(positions []TopicPosition, rows *examples.Rows, mem memory.Allocator) (wire.Message, error) {
	m, err := o.Message(rows, mem)
	if err != nil {
		return wire.Message{}, err
	}
	m.Headers = append(m.Headers, wire.Header{Key: headerNext, Value: strconv.FormatInt(max(o.Next, TopicSequence(positions)), 10)},
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

// TopicPositionsOf decodes how far ingest had read a topic when it wrote a message of it. An error wraps [wire.ErrDamaged].
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
