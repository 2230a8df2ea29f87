package wire

import (
	"fmt"
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

// IsChunk reports whether the message is a chunk of a record or of a document.
func (m Message) IsChunk() bool { return m.Get("chunks") != "" }

// Chunk returns the chunk number of the message; 0 if it is not a chunk.
func (m Message) Chunk() int {
	n, _ := m.Number("chunk") // 0 without the header
	return n
}

// BeginsDocument reports whether the message is the first chunk of a document.
func (m Message) BeginsDocument() bool { return m.Get("chunk") == "0" }

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
	Kind      Kind
	Run       string // see Plan.Run
	Stage     int    // Survey, 0, 1, …
	Visit     int    // Growth, 0, 1, …; on the weights topic, the visit that these weights are for
	Partition int    // of the examples topic; 0 on the weights topic
	// Merged is the number of partitions of the record, consecutive in the plan, from Partition on; 0: only Partition.
	Merged int
	// Parent is the digest of the record that this one was computed from. Statistics have the newest weights as their
	// parent, weights have the weights before them, and the survey's records have the plan.
	Parent Digest
}

// Key returns the message key of a chunk of the record.
func (id Identity) Key(chunk int) string {
	key := append(append(append(make([]byte, 0, 64), id.Run...), '/'), id.Kind...)
	for _, n := range [...]int{id.Stage, id.Visit} {
		key = strconv.AppendInt(append(key, '/'), int64(n), 10)
	}
	key = append(append(append(key, '/'), id.partitions()...), '/')
	return string(strconv.AppendInt(key, int64(chunk), 10))
}

// partitions returns the partition as text; for merged partitions, the first one, a plus sign and their number. Readers without support for
// merged records treat it as damaged, not as the record of the first partition.
func (id Identity) partitions() string {
	if id.Merged == 0 {
		return strconv.Itoa(id.Partition)
	}
	return strconv.Itoa(id.Partition) + "+" + strconv.Itoa(id.Merged)
}

// String describes the record for errors and log lines.
func (id Identity) String() string {
	merged := ""
	if id.Merged > 0 {
		merged = fmt.Sprintf(" and the %d after it", id.Merged-1)
	}
	return fmt.Sprintf("%s of run %s, stage %d, visit %d, partition %d%s", id.Kind, id.Run, id.Stage, id.Visit, id.Partition, merged)
}

// Headers returns the identity as headers. The slice has capacity for the further headers of a message.
func (id Identity) Headers() []Header {
	return append(make([]Header, 0, 18),
		Header{"kind", string(id.Kind)},
		Header{"run", id.Run},
		Header{"stage", strconv.Itoa(id.Stage)},
		Header{"visit", strconv.Itoa(id.Visit)},
		Header{"partition", id.partitions()},
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
			id.Partition, id.Merged, err = partitionsOf(m.Get("partition"))
		}
	}
	if err != nil {
		return Identity{}, err
	}
	return id, nil
}

// partitionsOf is the inverse of Identity.partitions.
func partitionsOf(text string) (first, merged int, err error) {
	one, number, some := strings.Cut(text, "+")
	if first, err = strconv.Atoi(one); err == nil && some {
		if merged, err = strconv.Atoi(number); merged < 2 && err == nil {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: header partition is %s, expected a whole number, or one, a plus sign and how many are merged", ErrDamaged,
			stream.Quote(text))
	}
	return first, merged, err
}

// Before reports whether id precedes other in a run: in an earlier stage, or an earlier visit of the same stage.
func (id Identity) Before(other Identity) bool {
	return id.Stage < other.Stage || id.Stage == other.Stage && id.Visit < other.Visit
}
