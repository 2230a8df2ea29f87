package schemas

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Origin says which message of an ingested source an examples message is. Its headers carry it.
type Origin struct {
	Source   string // ID of the source: see [SourceSeal]
	Attempt  string // of the source's ingest
	Sequence int64  // 0, 1, …: its number in the source
}

// The headers of an origin.
const (
	headerSource   = "source"
	headerSequence = "sequence"
)

// sourceHeader returns the value of the header `source` of a source's messages.
func sourceHeader(id, attempt string) string { return id + "/" + attempt }

// Message encodes rows as the examples message of that origin. Errors are those of [EncodeExamples], with the origin.
func (o Origin) Message(rows *ExampleRows, mem memory.Allocator) (Message, error) {
	record := rows.Record(mem)
	defer record.Release()
	value, err := EncodeExamples(record, mem)
	if err != nil {
		return Message{}, fmt.Errorf("encode examples of source %s, sequence %d: %w", Digest(o.Source).Short(), o.Sequence, err)
	}
	source := sourceHeader(o.Source, o.Attempt)
	return Message{
		Key: fmt.Sprintf("%s/%d", source, o.Sequence), Value: value,
		Headers: []Header{
			{"kind", string(KindExamples)}, {"schema", fingerprint(record.Schema())},
			{headerSource, source}, {headerSequence, strconv.FormatInt(o.Sequence, 10)},
		},
	}, nil
}

// OriginOf decodes the origin of an examples message. ok is false if the message does not name a source: another producer wrote
// it. An origin that can't be read has sequence −1.
func OriginOf(m Message) (o Origin, ok bool) {
	source := m.Get(headerSource)
	if source == "" {
		return Origin{}, false
	}
	o.Source, o.Attempt, ok = strings.Cut(source, "/")
	sequence, err := strconv.ParseInt(m.Get(headerSequence), 10, 64)
	if o.Sequence = sequence; err != nil || sequence < 0 || !ok {
		o.Sequence = -1
	}
	return o, true
}

// Of reports whether the message is of the sealed source.
func (o Origin) Of(s *SourceSeal) bool { return o.Source == s.ID && o.Attempt == s.Attempt }
