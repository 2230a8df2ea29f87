// Package stream reads untrusted Arrow streams: one record batch, decoded without trusting a length.
//
// The Arrow library trusts its input. It allocates the sizes that a stream claims, follows circular references, and
// reads arrays beyond the end of their buffers. A few bytes of untrusted input can crash the process. [Decode] therefore
// checks a stream before, while and after Arrow reads it: frames.go splits it into messages, metadata.go walks their
// metadata, reader.go limits the memory, and validate.go checks the buffers of the arrays. Rejected streams return an
// error that wraps [ErrDamaged].
//
// Arrow allocates from the Go heap, so records and arrays need no release.
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
)

// ErrDamaged is wrapped by every error about bytes that can't be decoded.
var ErrDamaged = errors.New("damaged or foreign bytes")

// overhead is the approximate size of a stream with few columns, excluding its buffers.
const overhead = 2 << 10

// Encode encodes a record as a complete IPC stream: its schema, one record batch, and the end of the stream.
func Encode(record arrow.Record) ([]byte, error) {
	var stream strings.Builder // unlike bytes.Buffer it does not clear megabytes that are written next
	size := uint64(overhead)
	for _, column := range record.Columns() {
		size += column.Data().SizeInBytes()
	}
	stream.Grow(int(size))
	w := ipc.NewWriter(&stream, ipc.WithSchema(record.Schema()))
	if err := w.Write(record); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	text := stream.String()
	return unsafe.Slice(unsafe.StringData(text), len(text)), nil // nobody else has the text
}

// Decode decodes a complete IPC stream of exactly one record batch, with the dictionaries that it needs. For any bytes
// it returns either a record or an error that wraps [ErrDamaged], and it allocates at most about four times their
// number. The record shares memory with value.
//
// Only the columns for which read returns true are validated, so the caller must not use other columns. If read is nil,
// all columns are validated.
func Decode(value []byte, read func(column string) bool) (record arrow.Record, err error) {
	r, err := newReader(bytes.NewBuffer(value), false, false)
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
	if _, err = r.Next(func(int) bool { return false }); err != io.EOF {
		return nil, cmp.Or(err, fmt.Errorf("%w: an Arrow stream of several record batches", ErrDamaged))
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
