package wire

import (
	"cmp"
	"container/list"
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// maxChunks is the maximum number of chunks of a record, about 9 GB.
const maxChunks = 10_000

// defaultMaxBytes is the default of Collector.MaxBytes. It holds 500 Gram matrices of 1024 features in single precision.
const defaultMaxBytes = 1 << 30

// recordOverhead and chunkOverhead are the approximate memory of an incomplete record and of each of its chunks, excluding
// their values. They limit the number of very small records and chunks.
const recordOverhead, chunkOverhead = 1024, 64

// Collector assembles records from their chunks. The zero value is ready to use. A Collector is not safe for concurrent
// use, and must not be copied after its first use.
//
// Its memory is bounded, even if many records never become complete. When incomplete records take more than MaxBytes, the
// Collector evicts those that have waited longest for a chunk. It never evicts the record of the last chunk, so it can
// collect a record of any size while there are no others. To get an evicted record, read the topic again. MaxBytes
// should therefore exceed the size of all records that are written at the same time.
type Collector[T Number] struct {
	MaxBytes int // of incomplete records; 0: 1 GiB

	open    map[chunkKey]*list.Element // of *incomplete, in waiting
	waiting list.List                  // in waiting order, longest first
	bytes   int                        // of all incomplete records
}

// chunkKey is shared by the chunks of one record.
type chunkKey struct {
	Identity
	digest Digest
	chunks int
}

// incomplete is a record that may have missing chunks.
type incomplete struct {
	chunkKey
	values map[int][]byte // by chunk number
	bytes  int
}

// EvictedError reports that a [Collector] has evicted an incomplete record. It wraps [ErrDamaged].
type EvictedError struct {
	Identity     // of the evicted record
	Have     int // number of chunks that had arrived
	Chunks   int // number of all chunks
}

// Error implements error.
func (e *EvictedError) Error() string {
	return fmt.Sprintf("evicted %d of %d chunks of the %v: the other chunks have not arrived, "+
		"and incomplete records take too much memory", e.Have, e.Chunks, e.Identity)
}

// Unwrap returns ErrDamaged.
func (e *EvictedError) Unwrap() error { return ErrDamaged }

// Add adds one message. It returns the record if the message completes it, and otherwise nil. A record is complete when
// all chunks with the same identity, digest and number of chunks have arrived, in any order. Its notes are those of the
// last chunk. If the digest is wrong, Add returns an error and drops all chunks of the record.
//
// The Collector keeps the message's value until the record is complete. An error wraps [ErrDamaged]. An *[EvictedError]
// refers to another record; the chunk of this message is kept.
func (c *Collector[T]) Add(m Message, mem memory.Allocator) (*Record[T], error) {
	o, err := c.collect(m)
	if err != nil || o == nil {
		return nil, err
	}
	r := &Record[T]{Identity: o.Identity, Notes: Notes(m)}
	a := newAssembly[T](o.bytes)
	for i := 0; i < o.chunks && err == nil; i++ {
		err = a.decode(o.values[i], mem)
	}
	if err == nil {
		if err = a.tensors.Complete(); err != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, err)
		}
	}
	if r.Tensors = a.tensors; err == nil && r.Digest() != o.digest {
		err = fmt.Errorf("%w: its digest is %s, its header says %q", ErrDamaged, r.Digest().Short(), o.digest.Short())
	}
	if err != nil {
		return nil, fmt.Errorf("decode %v: %w", r.Identity, err)
	}
	return r, nil
}

// collect adds one message. It returns the chunks of the record if the message completes it, and otherwise nil.
func (c *Collector[T]) collect(m Message) (*incomplete, error) {
	id, err := IdentityOf(m)
	if err != nil {
		return nil, err
	}
	chunk, err := m.Number("chunk")
	if err != nil {
		return nil, err
	}
	chunks, err := m.Number("chunks")
	if err != nil {
		return nil, err
	}
	digest := m.Digest()
	switch {
	case chunks < 1 || chunks > maxChunks || chunk < 0 || chunk >= chunks:
		return nil, fmt.Errorf("%w: chunk %d of %d, expected at most %d chunks, numbered from 0", ErrDamaged, chunk, chunks, maxChunks)
	case len(digest) > MaxName:
		return nil, fmt.Errorf("%w: a digest of %d digits, expected at most %d", ErrDamaged, len(digest), MaxName)
	case len(m.Value) > MaxMessage:
		return nil, fmt.Errorf("%w: a chunk of %d bytes, expected at most %d", ErrDamaged, len(m.Value), MaxMessage)
	}
	key := chunkKey{id, digest, chunks}
	if chunks == 1 {
		return &incomplete{key, map[int][]byte{0: m.Value}, recordOverhead + chunkOverhead + len(m.Value)}, nil
	}
	o := c.record(key)
	if _, twice := o.values[chunk]; !twice {
		o.values[chunk] = m.Value
		o.bytes += chunkOverhead + len(m.Value)
		c.bytes += chunkOverhead + len(m.Value)
	}
	if len(o.values) < chunks {
		return nil, c.evict()
	}
	c.remove(o)
	return o, nil
}

// record returns the incomplete record of a chunk.
func (c *Collector[T]) record(key chunkKey) *incomplete {
	at := c.open[key]
	if at == nil {
		if c.open == nil {
			c.open = map[chunkKey]*list.Element{}
		}
		at = c.waiting.PushBack(&incomplete{chunkKey: key, values: map[int][]byte{}, bytes: recordOverhead})
		c.open[key] = at
		c.bytes += recordOverhead
	}
	c.waiting.MoveToBack(at)
	return at.Value.(*incomplete)
}

// evict removes the records that have waited longest until the others fit. It returns an *EvictedError for the first.
func (c *Collector[T]) evict() (evicted error) {
	for c.bytes > cmp.Or(c.MaxBytes, defaultMaxBytes) && c.waiting.Len() > 1 {
		o := c.waiting.Front().Value.(*incomplete)
		evicted = cmp.Or[error](evicted, &EvictedError{o.Identity, len(o.values), o.chunks})
		c.remove(o)
	}
	return evicted
}

// remove removes a record.
func (c *Collector[T]) remove(o *incomplete) {
	c.waiting.Remove(c.open[o.chunkKey])
	delete(c.open, o.chunkKey)
	c.bytes -= o.bytes
}

// A document is JSON that may exceed the size of a message. Like a record, it is split into numbered chunks, each with the digest of
// the whole document. Plans, manifests, reports and windows are documents.

// DocumentChunk is the maximum length of a document's chunk, in bytes. A message has headers too.
const DocumentChunk = MaxMessage - 16<<10

// MaxDocument is the maximum length of a document, in bytes. A plan with 100,000 sources has 30 MB. Decoded JSON may take fifty times
// its length.
const MaxDocument = 64 << 20

// MessagesOf encodes a value as the messages of a document. Their keys contain the digest, so that compaction never mixes
// the chunks of two documents. It returns an error if the document is too long.
func MessagesOf(kind Kind, run string, value any) ([]Message, error) {
	content := JSON(value)
	if len(content) > MaxDocument {
		return nil, fmt.Errorf("the %s has %d bytes of JSON, expected at most %d", kind, len(content), MaxDocument)
	}
	digest, chunks := DigestOf(content), (len(content)-1)/DocumentChunk+1
	messages := make([]Message, chunks)
	for i := range messages {
		chunk := content[i*DocumentChunk : min((i+1)*DocumentChunk, len(content))]
		messages[i] = Message{
			Key: fmt.Sprintf("%s/%s/%s/%d", kind, run, digest.Short(), i), Value: chunk,
			Headers: append(Identity{Kind: kind, Run: run}.Headers(),
				Header{"chunk", strconv.Itoa(i)}, Header{"chunks", strconv.Itoa(chunks)}, Header{"digest", string(digest)}),
		}
	}
	return messages, nil
}

// Documents assembles documents from their messages. The zero value is ready to use. See [Collector] for its memory.
type Documents struct{ chunks Collector[float32] }

// Add adds one message. When the message completes a document, Add returns a message with the complete content, for
// [schemas.DecodeJSON], and true. An error wraps [ErrDamaged].
func (d *Documents) Add(m Message) (whole Message, ok bool, err error) {
	chunks, err := d.chunks.collect(m)
	if err != nil || chunks == nil {
		return Message{}, false, err
	}
	whole = m
	if chunks.chunks > 1 {
		whole.Value = nil
		for i := range chunks.chunks {
			whole.Value = append(whole.Value, chunks.values[i]...)
		}
	}
	if got := DigestOf(whole.Value); got != chunks.digest {
		return Message{}, false, fmt.Errorf("%w: document %s has digest %s, its header says %s", ErrDamaged, stream.Quote(m.Key),
			got.Short(), stream.Quote(string(chunks.digest)))
	}
	return whole, true, nil
}
