package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// maxUnpacked is how many bytes the compressed buffers of a batch may have together when they are decompressed. Buffers that are not
// compressed are limited by the bytes of the batch.
const maxUnpacked = 1 << 30

// Reader reads a stream of any number of record batches, one at a time, with the checks of [Decode]. Buffers may be compressed.
// [NewReader] makes readers.
type Reader struct {
	messages *frames
	reader   *ipc.Reader
	bounded  *boundedAllocator
}

// NewReader reads the schema of a stream. file says that it is the stream in a file, after the file's magic number: a footer may
// follow. The error wraps [ErrDamaged], and that of from if it has one.
func NewReader(from io.Reader, file bool, mem memory.Allocator) (_ *Reader, err error) {
	r := &Reader{bounded: &boundedAllocator{mem: mem}}
	take := func(n int64) ([]byte, error) {
		if n < 0 {
			return nil, fmt.Errorf("%d bytes announced", n)
		}
		var taken bytes.Buffer // it grows with what is there, whatever length is announced
		got, err := io.CopyN(&taken, from, n)
		r.bounded.left += 4 * int(got)
		if err == io.EOF && got > 0 {
			err = io.ErrUnexpectedEOF
		}
		return taken.Bytes(), err
	}
	r.messages = &frames{take: take, footer: file, rules: rules{dictionaries: map[int64]bool{}, many: true}}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("arrow: %v", cause)
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}()
	r.reader, err = ipc.NewReaderFromMessageReader(r.messages, ipc.WithAllocator(r.bounded))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Schema returns the schema.
func (r *Reader) Schema() *arrow.Schema { return r.reader.Schema() }

// Next returns the next record batch, or io.EOF after the mark of the stream's end. Only the columns for which read returns true
// are validated, so the caller must not look at any other. The caller releases the record.
func (r *Reader) Next(read func(column int) bool) (record arrow.Record, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("arrow: %v", cause)
		}
		if err != nil && err != io.EOF {
			record, err = nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}()
	r.bounded.left = maxUnpacked
	switch next := r.reader.Next(); {
	case !next && r.reader.Err() != nil:
		return nil, r.reader.Err()
	case !next && !r.messages.ended:
		return nil, errors.New("an Arrow stream without its end: it is cut off")
	case !next:
		return nil, io.EOF
	}
	record = r.reader.Record()
	for i := range record.Columns() {
		if read(i) {
			if err := validateColumn(record, i); err != nil {
				return nil, err
			}
		}
	}
	record.Retain()
	return record, nil
}

// Close frees what the reader holds.
func (r *Reader) Close() { r.reader.Release() }
