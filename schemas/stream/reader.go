package stream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// maxUnpacked is the maximum total size of the compressed buffers of a batch after decompression. Uncompressed buffers are limited by
// the bytes of the batch.
const maxUnpacked = 1 << 30

// grownAtOnce is the maximum number of bytes allocated for a message before they are read.
const grownAtOnce = 1 << 18

// Reader reads a stream of any number of record batches, one at a time, with the checks of [Decode]. Buffers may be compressed.
// [NewReader] makes readers.
type Reader struct {
	messages *frames
	reader   *ipc.Reader
	bounded  *boundedAllocator
	from     io.Reader
}

// NewReader reads the schema of a stream. If from is a *bytes.Buffer, its bytes are not copied, and must not change
// before the reader is closed and the records are released. file is true for the stream in a file, after the file's
// magic number: a footer may follow. The error wraps [ErrDamaged], and the error of from, if any.
func NewReader(from io.Reader, file bool, mem memory.Allocator) (*Reader, error) {
	return newReader(from, file, &boundedAllocator{mem: mem}, rules{many: true})
}

// ReadSchema returns the schema with which a stream begins. Unlike one of [NewReader], it may also have views and nested
// dictionaries. The error wraps [ErrDamaged].
func ReadSchema(content []byte) (*arrow.Schema, error) {
	r, err := newReader(bytes.NewBuffer(content), false, &boundedAllocator{mem: memory.DefaultAllocator}, rules{typesOnly: true})
	if err != nil {
		return nil, err
	}
	return r.Schema(), nil
}

// newReader is [NewReader] for a stream with other rules.
func newReader(from io.Reader, file bool, mem *boundedAllocator, allowed rules) (_ *Reader, err error) {
	whole, _ := from.(*bytes.Buffer)
	r := &Reader{bounded: mem, from: from}
	next := func(n int64) ([]byte, error) {
		if whole != nil {
			r.bounded.left += 4 * int(max(0, min(n, int64(whole.Len()))))
			return nextOf(whole, n)
		}
		if n < 0 {
			return nil, fmt.Errorf("%d bytes announced", n)
		}
		var taken bytes.Buffer // beyond grownAtOnce it grows with the bytes read, regardless of the claimed length
		taken.Grow(int(min(n, grownAtOnce)))
		got, err := io.CopyN(&taken, from, n)
		r.bounded.left += 4 * int(got)
		if err == io.EOF && got > 0 {
			err = io.ErrUnexpectedEOF
		}
		return taken.Bytes(), err
	}
	allowed.dictionaries = map[int64]bool{}
	r.messages = &frames{next: next, footer: file, rules: allowed}
	defer failed(&err)
	defer recovered(&err)
	if r.reader, err = ipc.NewReaderFromMessageReader(r.messages, ipc.WithAllocator(r.bounded)); err != nil {
		return nil, err
	}
	return r, nil
}

// nextOf returns the next n bytes in memory. They must not be changed: the arrays of the batches share them.
func nextOf(whole *bytes.Buffer, n int64) ([]byte, error) {
	switch left := int64(whole.Len()); {
	case left == 0 && n > 0:
		return nil, io.EOF
	case n < 0 || left < n:
		return nil, fmt.Errorf("%d bytes announced, %d left", n, left)
	}
	return whole.Next(int(n)), nil
}

// Schema returns the schema.
func (r *Reader) Schema() *arrow.Schema { return r.reader.Schema() }

// Reserve sets the function that reserves memory for compressed buffers before they are decompressed. Its error is that of
// Next. Without a function, the buffers of a batch may take 1 GiB.
func (r *Reader) Reserve(reserve func(bytes int) error) { r.bounded.reserve = reserve }

// Next returns the next record batch, or io.EOF after the end-of-stream marker. Only the columns for which read returns true are
// validated, so the caller must not use other columns. The caller releases the record.
func (r *Reader) Next(read func(column int) bool) (record arrow.Record, err error) {
	defer failed(&err)
	defer recovered(&err)
	if r.messages.rules.many {
		r.bounded.left = maxUnpacked
	}
	switch next := r.reader.Next(); {
	case !next && r.reader.Err() != nil:
		return nil, r.reader.Err()
	case !next && !r.messages.ended && r.messages.rules.many:
		return nil, errors.New("a truncated Arrow stream")
	case !next && r.messages.footer:
		return nil, io.EOF
	case !next:
		rest, err := io.Copy(io.Discard, r.from)
		if err == nil && rest > 0 {
			err = fmt.Errorf("%d bytes after the end of the stream: expected all batches in one stream", rest)
		}
		return nil, cmp.Or(err, io.EOF)
	}
	record = r.reader.Record()
	for i, column := range record.Columns() {
		if !read(i) {
			continue
		}
		err := validate(column.Data())
		if n := column.Len(); err == nil && int64(n) != record.NumRows() { // Arrow accepts a longer column
			err = fmt.Errorf("%d values in a batch of %d rows", n, record.NumRows())
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", Quote(record.ColumnName(i)), err)
		}
	}
	record.Retain()
	return record, nil
}

// failed makes an error about bytes wrap [ErrDamaged].
func failed(err *error) {
	if *err != nil && *err != io.EOF {
		*err = fmt.Errorf("%w: %w", ErrDamaged, *err)
	}
}

// recovered makes an error of a panic of Arrow, or of the allocator.
func recovered(err *error) {
	if cause := recover(); cause != nil {
		var isError bool
		if *err, isError = cause.(error); !isError {
			*err = fmt.Errorf("arrow: %v", cause)
		}
	}
}

// Close frees the memory of the reader.
func (r *Reader) Close() { r.reader.Release() }
