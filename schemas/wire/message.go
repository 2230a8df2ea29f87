// Package wire encodes all messages: messages with headers, records of tensors in one message or many,
// documents of JSON in chunks, and the digests that identify them.
//
//	Record, JSON ──Encode──▶ []Message ──Collector, Documents──▶ Record, JSON
//
// The other packages in schemas define the contents of records and documents. All input is untrusted: errors wrap
// [ErrDamaged], and memory is bounded by the number of bytes.
package wire

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"regexp"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/stream"
)

// ErrDamaged is wrapped by every error about a message or a file that can't be decoded or violates its format.
var ErrDamaged = stream.ErrDamaged

// MaxMessage is the maximum length of a value that stagewise writes, in bytes. Kafka brokers accept messages of 1 MiB by
// default, headers and framing included.
const MaxMessage = 900_000

// Header is one header of a message.
type Header struct{ Key, Value string }

// Message is a record of a Kafka topic without its position.
type Message struct {
	Key     string   // compaction keeps the last message of each key
	Headers []Header // in order; if a key occurs twice, the first one is used
	Value   []byte
	// Had is the CRC-32C of the value that an examples message had, if it was made again without the values of forgotten rows, or with
	// other keys of source messages; nil: it is that of Value.
	Had *uint32
}

// Checksum returns the CRC-32C of the value.
func (m Message) Checksum() uint32 {
	if m.Had != nil {
		return *m.Had
	}
	return crc32.Checksum(m.Value, crc32.MakeTable(crc32.Castagnoli))
}

// Tombstone returns the message that removes m from a compacted topic.
func (m Message) Tombstone() Message { return Message{Key: m.Key} }

// Get returns the value of the first header with that key, or "" if there is none.
func (m Message) Get(key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return h.Value
		}
	}
	return ""
}

// Number reads a header that is an integer. An error wraps ErrDamaged.
func (m Message) Number(key string) (int, error) {
	n, err := strconv.ParseInt(m.Get(key), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: header %s is %s, expected a whole number", ErrDamaged, key, stream.Quote(m.Get(key)))
	}
	return int(n), nil
}

// Chunk returns the chunk number of the message; 0 if it is not a chunk.
func (m Message) Chunk() int {
	n, _ := m.Number("chunk") // 0 without the header
	return n
}

// Kind is the kind of a message. Each kind is declared in the file of its type, and described in FORMAT.md.
type Kind string

// Run returns the run of the message; "" if it belongs to none.
func (m Message) Run() string { return m.Get("run") }

// Digest returns the digest of the message's record, from the header.
func (m Message) Digest() Digest { return Digest(m.Get("digest")) }

// Kind returns the kind of the message. It is "" for an examples message without headers from another producer.
func (m Message) Kind() Kind { return Kind(m.Get("kind")) }

// Survey is the stage number of the survey, which precedes stage 0.
const Survey = -1

// Growth is the visit to a stage, before visit 0, that its trees are grown from.
const Growth = -1

// Identity identifies a record of a run. A record that another process computes again has the same identity.
type Identity struct {
	Kind  Kind
	Run   string // see Plan.Run
	Stage int    // Survey, 0, 1, …
	Visit int    // Growth, 0, 1, …; on the weights topic, the visit that these weights are for
	// Partition is a partition of the examples topic; in statistics, the first of those that a share may have; on the weights
	// topic 0.
	Partition int
	// Parent is the digest of the record that this one was computed from. Statistics have the newest weights as their
	// parent, weights have the weights before them, and the survey's records have the plan.
	Parent Digest
}

// Key returns the message key of a chunk of the record.
func (id Identity) Key(chunk int) string {
	key := append(append(append(make([]byte, 0, 64), id.Run...), '/'), id.Kind...)
	for _, n := range [...]int{id.Stage, id.Visit, id.Partition, chunk} {
		key = strconv.AppendInt(append(key, '/'), int64(n), 10)
	}
	return string(key)
}

// String describes the record for errors and log lines.
func (id Identity) String() string {
	return fmt.Sprintf("%s of run %s, stage %d, visit %d, partition %d", id.Kind, id.Run, id.Stage, id.Visit, id.Partition)
}

// Headers returns the identity as headers. The slice has capacity for the further headers of a message.
func (id Identity) Headers() []Header {
	return append(make([]Header, 0, 18),
		Header{"kind", string(id.Kind)},
		Header{"run", id.Run},
		Header{"stage", strconv.Itoa(id.Stage)},
		Header{"visit", strconv.Itoa(id.Visit)},
		Header{"partition", strconv.Itoa(id.Partition)},
		Header{"parent", string(id.Parent)},
	)
}

// MaxName is the maximum length of a kind, a run or a digest, in bytes. Readers keep them and log them. A digest of
// stagewise has 64.
const MaxName = 128

// CheckName returns an error if a kind, a run or a digest is longer than [MaxName].
func CheckName(name string) error {
	if n := len(name); n > MaxName {
		return fmt.Errorf("%w: a name of %d bytes, expected at most %d", ErrDamaged, n, MaxName)
	}
	return nil
}

// IdentityOf reads the identity from a message's headers. An error wraps [ErrDamaged].
func IdentityOf(m Message) (id Identity, err error) {
	id.Kind, id.Run, id.Parent = m.Kind(), m.Run(), Digest(m.Get("parent"))
	if n := max(len(id.Kind), len(id.Run), len(id.Parent)); n > MaxName {
		return Identity{}, fmt.Errorf("%w: a kind, run or parent of %d bytes, expected at most %d", ErrDamaged, n, MaxName)
	}
	if id.Stage, err = m.Number("stage"); err == nil {
		if id.Visit, err = m.Number("visit"); err == nil {
			id.Partition, err = m.Number("partition")
		}
	}
	if err != nil {
		return Identity{}, err
	}
	return id, nil
}

// Before reports whether id precedes other in a run: in an earlier stage, or an earlier visit of the same stage.
func (id Identity) Before(other Identity) bool {
	return id.Stage < other.Stage || id.Stage == other.Stage && id.Visit < other.Visit
}

// JSONMessage makes a message whose value is JSON. It panics if the value can't be encoded.
func JSONMessage(kind Kind, run, key string, value any) Message {
	return Message{Key: key, Headers: []Header{{"kind", string(kind)}, {"run", run}}, Value: JSON(value)}
}

// JSON returns the JSON of a value. It panics if the value can't be encoded.
func JSON(value any) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("schemas: no JSON for %T: %v", value, err))
	}
	return content
}

// HeaderTrace is the header of a message or a request with its place in a trace (https://www.w3.org/TR/trace-context).
const HeaderTrace = "traceparent"

// traceContext matches a version, a trace, its span, and flags.
var traceContext = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// ValidTrace returns a value of [HeaderTrace]; "" if it is invalid, and must be ignored.
func ValidTrace(text string) string {
	if !traceContext.MatchString(text) || strings.HasPrefix(text, "ff") || strings.Contains(text, "-"+strings.Repeat("0", 32)+"-") ||
		strings.Contains(text, "-"+strings.Repeat("0", 16)+"-") {
		return ""
	}
	return text
}

// Trace returns the place of the message in a trace; "" if it is unknown.
func (m Message) Trace() string { return ValidTrace(m.Get(HeaderTrace)) }
