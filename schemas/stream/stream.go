// Package stream reads untrusted Arrow: one record batch, decoded without trusting a length, whose columns have [Values] of any type.
//
// The Arrow library trusts its input. It allocates the sizes that a stream claims, follows circular references, and
// reads arrays beyond the end of their buffers. A few bytes of untrusted input can crash the process. [Decode] therefore
// checks a stream before, while and after Arrow reads it: this file splits it into messages and limits the
// memory, metadata.go walks their metadata, and validate.go checks the buffers of the arrays. Rejected streams return an
// error that wraps [ErrDamaged].
package stream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// ErrDamaged is wrapped by every error about bytes that can't be decoded.
var ErrDamaged = errors.New("damaged or foreign bytes")

// overhead is the approximate size of a stream with few columns, excluding its buffers.
const overhead = 2 << 10

// Encode encodes a record as a complete IPC stream: its schema, one record batch, and the end of the stream.
func Encode(record arrow.Record, mem memory.Allocator) ([]byte, error) {
	var stream strings.Builder // unlike bytes.Buffer it does not clear megabytes that are written next
	size := uint64(overhead)
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
	text := stream.String()
	return unsafe.Slice(unsafe.StringData(text), len(text)), nil // there is no other reference to the text
}

// Decode decodes a complete IPC stream of exactly one record batch, with the dictionaries that it needs. For any bytes
// it returns either a record or an error that wraps [ErrDamaged], and it allocates at most about four times their
// number.
//
// Only the columns for which read returns true are validated, so the caller must not use other columns. If read is nil,
// all columns are validated. The caller releases the record.
func Decode(value []byte, mem memory.Allocator, read func(column string) bool) (record arrow.Record, err error) {
	// Arrow copies a buffer into a multiple of 64 bytes. Each buffer is described by 16 bytes of the stream.
	bounded := &boundedAllocator{mem: mem, left: 64, live: map[*byte][]byte{}}
	defer func() {
		if err != nil {
			record = nil
			for _, b := range bounded.live { // Arrow does not free its allocations after some errors
				mem.Free(b)
			}
		}
		bounded.live = nil
	}()
	r, err := newReader(bytes.NewBuffer(value), false, bounded, rules{})
	if err != nil {
		return nil, err
	}
	record, err = r.Next(func(i int) bool { return read == nil || read(r.Schema().Field(i).Name) })
	if err == io.EOF {
		err = fmt.Errorf("%w: an Arrow stream without a record batch", ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if another, err := r.Next(func(int) bool { return false }); err != io.EOF {
		return another, cmp.Or(err, fmt.Errorf("%w: an Arrow stream of several record batches", ErrDamaged))
	}
	return record, nil
}

// Quote quotes an untrusted text for an error or a log line. It truncates long texts to 64 bytes.
func Quote(text string) string {
	const maxShown = 64
	if len(text) > maxShown {
		return strconv.Quote(text[:maxShown]) + "…"
	}
	return strconv.Quote(text)
}

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
			left := int64(whole.Len())
			r.bounded.left += 4 * int(max(0, min(n, left)))
			switch {
			case left == 0 && n > 0:
				return nil, io.EOF
			case n < 0 || left < n:
				return nil, fmt.Errorf("%d bytes announced, %d left", n, left)
			}
			return whole.Next(int(n)), nil // the batches share the bytes
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

// frames is an ipc.MessageReader. It splits a stream into messages without trusting the claimed lengths. Arrow's own
// reader allocates any length that it reads.
type frames struct {
	// next returns the next n bytes of the stream; io.EOF if the stream ends before the first of them.
	next  func(n int64) ([]byte, error)
	last  *ipc.Message
	rules rules
	// footer is true for the stream in a file, which may have its footer instead of the end-of-stream marker.
	footer bool
	begun  bool // a message was read
	ended  bool // the end-of-stream marker or footer was read
}

// Retain implements ipc.MessageReader.
func (f *frames) Retain() {}

// Release releases the last message.
func (f *frames) Release() {
	if f.last != nil {
		f.last.Release()
		f.last = nil
	}
}

// continuation precedes the length of a message since Arrow 0.15.
const continuation = 0xFFFFFFFF

// Message returns the next message after it has verified its metadata, or io.EOF at the end of the stream. The message
// is valid until the next call.
func (f *frames) Message() (*ipc.Message, error) {
	f.Release()
	length, err := f.uint32() // io.EOF: the stream ends between two messages
	switch {
	case err == io.ErrUnexpectedEOF:
		_, err = within(0, err)
	case err == nil && length == continuation:
		length, err = within(f.uint32())
	case err == nil && f.footer && !f.begun: // files of Polars
		err = errors.New("the file does not begin with its schema: write it as Parquet, or as a stream " +
			"(in Polars write_parquet, or write_ipc_stream with compat_level=CompatLevel.oldest())")
	case err == nil && f.footer:
		length = 0
	}
	if err != nil {
		return nil, err
	}
	if length == 0 {
		f.ended = true
		return nil, io.EOF
	}
	meta, err := within(f.next(int64(length)))
	if err != nil {
		return nil, err
	}
	bodyLength, err := f.rules.verify(meta)
	if err != nil {
		return nil, err
	}
	body, err := within(f.next(bodyLength))
	if err != nil {
		return nil, err
	}
	f.begun = true
	f.last = ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body))
	return f.last, nil
}

// within returns the error of a stream that ends within a message.
func within[T any](value T, err error) (T, error) {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("the stream ends within a message: %w", io.ErrUnexpectedEOF)
	}
	return value, err
}

func (f *frames) uint32() (uint32, error) {
	b, err := f.next(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// boundedAllocator is a memory.Allocator that panics instead of allocating more than left bytes in total. Decode turns
// the panic into an error. While live is not nil, it records every allocation, so that Decode can free them after an
// error.
type boundedAllocator struct {
	mem     memory.Allocator
	left    int
	reserve func(bytes int) error // see [Reader.Reserve]; nil: left is the limit
	live    map[*byte][]byte
}

// Allocate implements memory.Allocator.
func (a *boundedAllocator) Allocate(size int) []byte {
	a.claim(size)
	b := a.mem.Allocate(size)
	a.track(b)
	return b
}

// Reallocate implements memory.Allocator.
func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.claim(size)
	a.forget(b)
	b = a.mem.Reallocate(size, b)
	a.track(b)
	return b
}

// Free implements memory.Allocator.
func (a *boundedAllocator) Free(b []byte) {
	a.forget(b)
	a.mem.Free(b)
}

func (a *boundedAllocator) claim(size int) {
	if a.reserve != nil && size >= 0 {
		if err := a.reserve(size); err != nil {
			panic(err)
		}
		return
	}
	if size < 0 || size > a.left {
		panic(fmt.Sprintf("%d bytes claimed, at most %d expected", size, a.left))
	}
	a.left -= size
}

func (a *boundedAllocator) track(b []byte) {
	if a.live != nil && cap(b) > 0 {
		a.live[unsafe.SliceData(b)] = b
	}
}

func (a *boundedAllocator) forget(b []byte) {
	if a.live != nil && cap(b) > 0 {
		delete(a.live, unsafe.SliceData(b))
	}
}
