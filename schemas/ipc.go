package schemas

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// MaxMessage is the most bytes that the value of a message of ours has: stock
// brokers take messages of 1 MiB, headers and framing included.
const MaxMessage = 900_000

// streamOverhead is about what an IPC stream of few columns has beside its
// buffers.
const streamOverhead = 2 << 10

// ErrDamaged is what every error about bytes that are not what they should be
// wraps.
var ErrDamaged = errors.New("damaged or foreign bytes")

// encode makes a complete IPC stream of one record batch.
func encode(record arrow.Record, mem memory.Allocator) ([]byte, error) {
	var stream bytes.Buffer
	size := uint64(streamOverhead)
	for _, column := range record.Columns() {
		size += column.Data().SizeInBytes()
	}
	stream.Grow(int(size))
	w := ipc.NewWriter(&stream, ipc.WithSchema(record.Schema()), ipc.WithAllocator(mem))
	if err := w.Write(record); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return stream.Bytes(), nil
}

// decode reads a complete IPC stream of exactly one record batch. Whatever the
// bytes are, it answers with a record or an error that wraps ErrDamaged, and
// allocates about four times their number at most. Only the columns for
// which read is true may be looked at: the buffers of others are not validated.
// The caller releases the record.
func decode(value []byte, mem memory.Allocator, read func(column string) bool) (record arrow.Record, err error) {
	// a buffer is copied into a multiple of 64 bytes, and described by 16
	bounded := &boundedAllocator{mem: mem, left: 4*len(value) + 64, live: map[*byte][]byte{}}
	defer func() {
		// arrow panics on some streams; what it had allocated by then is ours to free
		if cause := recover(); cause != nil {
			err = fmt.Errorf("arrow: %v", cause)
		}
		if err != nil {
			bounded.freeAll()
			record, err = nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		bounded.live = nil
	}()
	stream := &frames{rest: value}
	r, err := ipc.NewReaderFromMessageReader(stream, ipc.WithAllocator(bounded))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	if !r.Next() {
		if err := r.Err(); err != nil {
			return nil, err
		}
		return nil, errors.New("an Arrow stream without a record batch")
	}
	record = r.Record()
	record.Retain()
	switch {
	case r.Next():
		return nil, errors.New("an Arrow stream of several record batches")
	case r.Err() != nil:
		return nil, r.Err()
	case len(stream.rest) > 0:
		return nil, fmt.Errorf("%d bytes after the end of an Arrow stream", len(stream.rest))
	}
	for i, column := range record.Columns() {
		if !read(record.ColumnName(i)) {
			continue
		}
		err := validate(column.Data())
		if n := column.Len(); err == nil && int64(n) != record.NumRows() { // arrow lets a column be longer
			err = fmt.Errorf("%d values in a batch of %d rows", n, record.NumRows())
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", quote(record.ColumnName(i)), err)
		}
	}
	return record, nil
}

// all is for records of ours, whose every column is read.
func all(string) bool { return true }

// fingerprint is the header by which people tell one schema from another.
func fingerprint(schema *arrow.Schema) string {
	return DigestOf([]byte(schema.String())).Short()
}
