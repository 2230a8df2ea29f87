// Package stream reads untrusted Arrow: one record batch, decoded without trusting a length, whose columns have [Values] of any type.
//
// The Arrow library trusts its input. It allocates the sizes that a stream claims, follows circular references, and
// reads arrays beyond the end of their buffers. A few bytes of untrusted input can crash the process. [Decode] therefore
// checks a stream before, while and after Arrow reads it: reader.go splits it into messages and limits the
// memory, metadata.go walks their metadata, and validate.go checks the buffers of the arrays. Rejected streams return an
// error that wraps [ErrDamaged].
package stream

import (
	"bytes"
	"cmp"
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
