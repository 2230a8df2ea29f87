package schemas

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// frames cuts a stream into its messages without copying and without trusting
// what it claims: arrow's own reader allocates what it is told to.
type frames struct {
	rest []byte
	last *ipc.Message
}

func (f *frames) Retain() {}

func (f *frames) Release() {
	if f.last != nil {
		f.last.Release()
		f.last = nil
	}
}

// continuation comes before the length of a message since Arrow 0.15.
const continuation = 0xFFFFFFFF

// Message is the next message, verified; io.EOF at the end of the stream.
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
	bodyLength, err := verify(meta)
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

func (f *frames) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(f.rest)) {
		return nil, fmt.Errorf("%d bytes announced, %d left", n, len(f.rest))
	}
	taken := f.rest[:n:n]
	f.rest = f.rest[n:]
	return taken, nil
}
