package schemas

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"

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
