package schemas

import (
	"container/list"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// maxChunks bounds what one record may claim to be: 9 GB.
const maxChunks = 10_000

// collectorRoom is what a Collector keeps of incomplete records unless it is told
// otherwise: 500 Gram matrices of 1024 features in single precision.
const collectorRoom = 1 << 30

// openedBytes and chunkBytes are about what an incomplete record and each of its
// chunks take beside their values, so that very many small ones are bounded too.
const openedBytes, chunkBytes = 1024, 64

// Collector puts the chunks of records together. The zero value is ready. It
// is not safe for concurrent use, and not to be copied once it is used.
//
// What it keeps is bounded, even if it is given chunks without end of records
// that never become whole: where incomplete records take more than Room bytes,
// those that have waited longest for a chunk are forgotten. That is never the
// one whose chunk came last, so a record of any size can be collected while no
// others are. A record that is forgotten has to be written again, as its writer
// does when nothing has followed from it for a while; Room is therefore to exceed
// what all writers have on their way at once.
type Collector[T Number] struct {
	Room int // bytes; 0: 1 GiB

	open    map[claim]*list.Element // of *opened, in waiting
	waiting list.List               // the one that has waited longest first
	bytes   int
}

// claim is what chunks have to agree on to be of one record.
type claim struct {
	Identity
	digest Digest
	chunks int
}

// opened is an incomplete record.
type opened struct {
	claim
	values map[int][]byte // by chunk
	bytes  int
}

// ForgottenError says that an incomplete record was given up for others.
type ForgottenError struct {
	Identity
	Have, Chunks int
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("%d of %d chunks of the %v are forgotten: the others have not come, and too many records are incomplete", e.Have, e.Chunks, e.Identity)
}

func (e *ForgottenError) Unwrap() error { return ErrDamaged }

// Add takes one message, and answers with the record when it completes one:
// when all chunks that carry the same identity and digest are there, in
// whatever order they came, and the digest is right. The notes are those of the
// chunk that came last. If the digest is wrong, all of its chunks are forgotten.
// It keeps the message's value until then. Errors wrap ErrDamaged; a
// *ForgottenError is about another record than the message's, which is kept.
func (c *Collector[T]) Add(m Message, mem memory.Allocator) (*Record[T], error) {
	whole, err := c.Collect(m)
	if err != nil || whole == nil {
		return nil, err
	}
	return whole.Decode(mem)
}

// Collect is Add for who decodes the record himself.
func (c *Collector[T]) Collect(m Message) (*Chunks[T], error) {
	id, err := IdentityOf(m)
	if err != nil {
		return nil, err
	}
	chunk, err := m.number("chunk")
	if err != nil {
		return nil, err
	}
	chunks, err := m.number("chunks")
	if err != nil {
		return nil, err
	}
	if chunks < 1 || chunks > maxChunks || chunk < 0 || chunk >= chunks {
		return nil, fmt.Errorf("%w: chunk %d of %d", ErrDamaged, chunk, chunks)
	}
	digest := Digest(m.Get("digest"))
	if len(digest) > maxName || len(m.Value) > MaxMessage {
		return nil, fmt.Errorf("%w: a chunk of %d bytes, a digest of %d digits", ErrDamaged, len(m.Value), len(digest))
	}
	o := c.keep(claim{id, digest, chunks}, chunk, m.Value)
	if len(o.values) < chunks {
		return nil, c.makeRoom()
	}
	c.forget(o)
	whole := &Chunks[T]{Identity: id, Digest: digest, Notes: notes(m), Values: make([][]byte, chunks)}
	for i := range chunks {
		whole.Values[i] = o.values[i]
	}
	return whole, nil
}

// Chunks is all messages of a record, undecoded.
type Chunks[T Number] struct {
	Identity
	Digest Digest // as the messages claim
	Notes  []Header
	Values [][]byte
}

// Decode makes the record. An error wraps ErrDamaged.
func (c *Chunks[T]) Decode(mem memory.Allocator) (*Record[T], error) {
	tensors, err := DecodeTensors[T](c.Values, mem)
	if err != nil {
		return nil, fmt.Errorf("decode %v: %w", c.Identity, err)
	}
	return c.Record(tensors)
}

// Record is the record of its tensors, if they are those that the digest is over. An
// error wraps ErrDamaged.
func (c *Chunks[T]) Record(t Tensors[T]) (*Record[T], error) {
	r := &Record[T]{Identity: c.Identity, Notes: c.Notes, Tensors: t}
	if got := r.Digest(); got != c.Digest {
		return nil, fmt.Errorf("decode %v: %w: its digest is %s, its header says %q", c.Identity, ErrDamaged, got.Short(), c.Digest.Short())
	}
	return r, nil
}

// DecodeTensors reads the values of all messages of a record. An error wraps
// ErrDamaged.
func DecodeTensors[T Number](values [][]byte, mem memory.Allocator) (Tensors[T], error) {
	bytes := openedBytes
	for _, value := range values {
		bytes += chunkBytes + len(value)
	}
	a := newAssembly[T](bytes)
	for _, value := range values {
		if err := a.decode(value, mem); err != nil {
			return nil, err
		}
	}
	if err := a.tensors.complete(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return a.tensors, nil
}

// keep opens the record, if it is not, and adds a chunk, if that is not there.
func (c *Collector[T]) keep(whole claim, chunk int, value []byte) *opened {
	at := c.open[whole]
	if at == nil {
		if c.open == nil {
			c.open = map[claim]*list.Element{}
		}
		at = c.waiting.PushBack(&opened{claim: whole, values: map[int][]byte{}, bytes: openedBytes})
		c.open[whole] = at
		c.bytes += openedBytes
	}
	c.waiting.MoveToBack(at)
	o := at.Value.(*opened)
	if _, twice := o.values[chunk]; !twice {
		o.values[chunk] = value
		o.bytes += chunkBytes + len(value)
		c.bytes += chunkBytes + len(value)
	}
	return o
}

// makeRoom forgets what has waited longest, and answers with the first of it.
func (c *Collector[T]) makeRoom() error {
	room, first := c.Room, (*ForgottenError)(nil)
	if room == 0 {
		room = collectorRoom
	}
	for c.bytes > room && c.waiting.Len() > 1 {
		o := c.waiting.Front().Value.(*opened)
		if first == nil {
			first = &ForgottenError{o.Identity, len(o.values), o.chunks}
		}
		c.forget(o)
	}
	if first == nil {
		return nil
	}
	return first
}

func (c *Collector[T]) forget(o *opened) {
	c.waiting.Remove(c.open[o.claim])
	delete(c.open, o.claim)
	c.bytes -= o.bytes
}
