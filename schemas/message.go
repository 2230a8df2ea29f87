package schemas

import (
	"fmt"
	"strconv"
)

// Header is one header of a message.
type Header struct{ Key, Value string }

// Message is what a log carries: schemas gives it meaning, a log gives it a
// place.
type Message struct {
	Key     string
	Headers []Header
	Value   []byte
}

// Get is the value of the first header of that name, or "".
func (m Message) Get(key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return h.Value
		}
	}
	return ""
}

func (m Message) number(key string) (int, error) {
	n, err := strconv.ParseInt(m.Get(key), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: header %s is %s, expected a whole number", ErrDamaged, key, quote(m.Get(key)))
	}
	return int(n), nil
}

// Kind tells what a message is. Each kind is declared in the file of its type;
// [Layouts] lists them.
type Kind string

// Kind of a message; "" if it has none, as what other producers write to
// examples.
func (m Message) Kind() Kind { return Kind(m.Get("kind")) }

// Survey is the stage number of the survey, which comes before stage 0.
const Survey = -1

// Identity is which record of a run a message is (a part of). However often
// and by whomever it is made, it is the same record.
type Identity struct {
	Kind      Kind
	Run       string
	Stage     int // Survey, 0, 1, …
	Visit     int // 0, 1, …; on the weights topic the visit that these weights are for
	Partition int // of examples; 0 on the weights topic
	// Parent is the digest of the record that this one was computed from: for
	// statistics the newest weights, for weights those before them, and the
	// plan's for the survey.
	Parent Digest
}

// Key is the message key of a chunk: what compaction keeps one of.
func (id Identity) Key(chunk int) string {
	key := append(append(append(make([]byte, 0, 64), id.Run...), '/'), id.Kind...)
	for _, n := range [...]int{id.Stage, id.Visit, id.Partition, chunk} {
		key = strconv.AppendInt(append(key, '/'), int64(n), 10)
	}
	return string(key)
}

func (id Identity) String() string {
	return fmt.Sprintf("%s of run %s, stage %d, visit %d, partition %d", id.Kind, id.Run, id.Stage, id.Visit, id.Partition)
}

// headers of the identity, with room for those that a message has beside them.
func (id Identity) headers() []Header {
	return append(make([]Header, 0, 18),
		Header{"kind", string(id.Kind)},
		Header{"run", id.Run},
		Header{"stage", strconv.Itoa(id.Stage)},
		Header{"visit", strconv.Itoa(id.Visit)},
		Header{"partition", strconv.Itoa(id.Partition)},
		Header{"parent", string(id.Parent)},
	)
}

// maxName is the most bytes of a kind, a run or a digest, which has 64: they are
// kept, and told to people.
const maxName = 128

// IdentityOf reads the identity from a message's headers.
func IdentityOf(m Message) (id Identity, err error) {
	id.Kind, id.Run, id.Parent = m.Kind(), m.Get("run"), Digest(m.Get("parent"))
	if n := max(len(id.Kind), len(id.Run), len(id.Parent)); n > maxName {
		return Identity{}, fmt.Errorf("%w: an identity of %d bytes", ErrDamaged, n)
	}
	if id.Stage, err = m.number("stage"); err != nil {
		return Identity{}, err
	}
	if id.Visit, err = m.number("visit"); err != nil {
		return Identity{}, err
	}
	if id.Partition, err = m.number("partition"); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// position orders records along the chain of a run.
func (id Identity) position() [2]int { return [2]int{id.Stage, id.Visit} }

// Before tells whether id comes before other along the chain of a run.
func (id Identity) Before(other Identity) bool {
	a, b := id.position(), other.position()
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}
