package run

import (
	"bytes"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas"
)

// recent is the records that a process has written or read last. Where one process has the worker, the solver and those who follow the run, each
// record is read by several, and after its writer. A record whose bytes are those of a record that was written, or read, has its digest: comparing
// them takes a tenth of the time of a SHA-256. The zero value has no records. It is safe for concurrent use.
type recent struct {
	mutex   sync.Mutex
	records []*recentRecord // the oldest first
	last    map[schemas.Digest]*recentRecord
	bytes   int
	single  *recentRecord         // the last in single precision, also if it is too large to be kept otherwise: several read each record of weights
	given   map[int]*recentRecord // by partition: what a writer has given and nobody has read yet, also if it is too large to be kept otherwise
}

// recentRecord is a record whose digest was computed.
type recentRecord struct {
	identity schemas.Identity
	notes    []schemas.Header
	digest   schemas.Digest
	values   [][]byte                 // of its messages
	single   schemas.Tensors[float32] // what they are, if the record is in single precision
	given    schemas.Tensors[float64] // what they are, for the first who reads them, if the writer has given them
}

// recentBytes is how many bytes of messages are kept. Sums and weights are read soon after they are written, and those that are larger are not kept.
const recentBytes = 32 << 20

// add keeps a record.
func (r *recent) add(record *recentRecord) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.last == nil {
		r.last = map[schemas.Digest]*recentRecord{}
	}
	r.records, r.last[record.digest] = append(r.records, record), record
	if record.single != nil {
		r.single = record
	}
	r.bytes += record.bytes()
	for r.bytes > recentBytes {
		oldest := r.records[0]
		r.records[0], r.records = nil, r.records[1:]
		r.bytes -= oldest.bytes()
		if r.last[oldest.digest] == oldest {
			delete(r.last, oldest.digest)
		}
	}
}

// give keeps a record with the tensors that its writer has given, until it is read or the partition has another.
func (r *recent) give(record *recentRecord) {
	r.add(record)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.given == nil {
		r.given = map[int]*recentRecord{}
	}
	r.given[record.identity.Partition] = record
}

// take returns the tensors of a record that its writer has given, once.
func (r *recent) take(record *recentRecord) schemas.Tensors[float64] {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.given[record.identity.Partition] == record {
		delete(r.given, record.identity.Partition)
	}
	given := record.given
	record.given = nil
	return given
}

func (r *recentRecord) bytes() (n int) {
	for _, value := range r.values {
		n += len(value)
	}
	return n
}

// find returns the record with that digest if its content is the given one; otherwise nil.
func (r *recent) find(id schemas.Identity, notes []schemas.Header, digest schemas.Digest, values [][]byte) *recentRecord {
	r.mutex.Lock()
	have := r.last[digest]
	if r.single != nil && r.single.digest == digest {
		have = r.single
	}
	if given := r.given[id.Partition]; given != nil && given.digest == digest {
		have = given
	}
	r.mutex.Unlock()
	if have == nil || have.identity != id || !slices.Equal(have.notes, notes) || !slices.EqualFunc(have.values, values, bytes.Equal) {
		return nil
	}
	return have
}

// written returns a record that was encoded as messages.
func written[T schemas.Number](record *schemas.Record[T], messages []schemas.Message) *recentRecord {
	values := make([][]byte, len(messages))
	for i, m := range messages {
		values[i] = m.Value
	}
	return &recentRecord{identity: record.Identity, notes: record.Notes, digest: messages[0].Digest(), values: values}
}

// readDouble decodes a record in double precision, unless its writer has given the tensors.
func (r *recent) readDouble(c *schemas.Chunks[float64], mem memory.Allocator) (*schemas.Record[float64], error) {
	have := r.find(c.Identity, c.Notes, c.Digest, c.Values)
	if have == nil {
		return c.Decode(mem)
	}
	tensors, err := r.take(have), error(nil)
	if tensors == nil {
		tensors, err = schemas.DecodeTensors[float64](c.Values, mem)
	}
	return &schemas.Record[float64]{Identity: c.Identity, Notes: c.Notes, Tensors: tensors}, err
}

// readSingle decodes a record in single precision. Those who read it share the tensors of its writer, or of the first who has read it.
func (r *recent) readSingle(c *schemas.Chunks[float32], mem memory.Allocator) (*schemas.Record[float32], error) {
	have := r.find(c.Identity, c.Notes, c.Digest, c.Values)
	if have == nil {
		record, err := c.Decode(mem)
		if err == nil {
			r.add(&recentRecord{identity: c.Identity, notes: c.Notes, digest: c.Digest, values: c.Values, single: record.Tensors})
		}
		return record, err
	}
	return &schemas.Record[float32]{Identity: c.Identity, Notes: c.Notes, Tensors: have.single}, nil
}
