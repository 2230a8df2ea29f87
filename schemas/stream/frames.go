package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

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
