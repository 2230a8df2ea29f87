package stream

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// frames is an ipc.MessageReader. It cuts a stream into messages without copying and without trusting the lengths that
// the stream claims. Arrow's own reader allocates whatever length it reads.
type frames struct {
	rest         []byte
	last         *ipc.Message
	dictionaries dictionaries
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
	if len(f.rest) == 0 {
		return nil, io.EOF
	}
	length, err := f.uint32()
	if err == nil && length == continuation {
		length, err = f.uint32()
	}
	if err != nil {
		return nil, err
	}
	if length == 0 {
		return nil, io.EOF
	}
	meta, err := f.take(int64(length))
	if err != nil {
		return nil, err
	}
	bodyLength, err := f.dictionaries.verify(meta)
	if err != nil {
		return nil, err
	}
	body, err := f.take(bodyLength)
	if err != nil {
		return nil, err
	}
	f.last = ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body))
	return f.last, nil
}

func (f *frames) uint32() (uint32, error) {
	b, err := f.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// take returns the next n bytes.
func (f *frames) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(f.rest)) {
		return nil, fmt.Errorf("%d bytes announced, %d left", n, len(f.rest))
	}
	taken := f.rest[:n:n]
	f.rest = f.rest[n:]
	return taken, nil
}
