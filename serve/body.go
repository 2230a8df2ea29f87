package serve

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// uncompressed is the content encoding of an unencoded body.
const uncompressed = "identity"

// unpackBytes is the memory for decompressing a body besides the body: the window of 32 KiB, tables, and a buffer.
const unpackBytes = 48 << 10

// body is the body of a request, with the memory reserved for it before it is read: for its announced length, or for a small
// body, and then for the largest one. So a body that waits for memory holds little of it.
type body struct {
	*Server
	text     []byte
	reserved int64
	of       *budget
	beside   int64 // of memory.small
	client   *peer
}

// read reads and decompresses the body of a request. The caller calls release when the body is no longer needed.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (_ *body, err error) {
	limit := int64(s.options.MaxBody)
	tooLarge := func() error {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes: send fewer rows at a time", limit)
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	b := &body{Server: s}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	length := r.ContentLength
	from := io.Reader(http.MaxBytesReader(w, r.Body, limit))
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", uncompressed:
	case "gzip", "x-gzip":
		if !s.reserve(r.Context(), s.memory.small, unpackBytes) {
			return nil, s.full()
		}
		length, b.beside = -1, unpackBytes
		from = &unpacked{from: from}
	default:
		w.Header().Set("Accept-Encoding", "gzip")
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Encoding %.40q: expected gzip, or none", encoding)
	}
	size := int64(smallBytes)
	if length >= 0 {
		size = bufferSize(length + 1) // a byte to see the end
	}
	if err := b.claim(r.Context(), size); err != nil {
		return nil, err
	}
	b.text = s.buffers.get(size)
	b.client = b.of.clients.begin(func() { _ = http.NewResponseController(w).SetReadDeadline(past) })
	for {
		if len(b.text) == cap(b.text) {
			if err := b.grow(r.Context(), limit+1); err != nil {
				return nil, err
			}
		}
		var n int
		b.client.waits(func() { n, err = from.Read(b.text[len(b.text):cap(b.text)]) })
		b.text = b.text[:len(b.text)+n]
		switch {
		case int64(len(b.text)) > limit:
			return nil, tooLarge()
		case err == nil:
		case err == io.EOF:
			b.complete()
			return b, nil
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, tooLarge()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, refuse(http.StatusRequestTimeout, "the body did not arrive within %v, or stopped while others needed the memory",
				s.options.Timeout)
		default:
			return nil, refuse(http.StatusBadRequest, "the body can't be read: %v", err)
		}
	}
}

// claim reserves memory for a body, in place of what is reserved for it.
func (b *body) claim(ctx context.Context, bytes int64) error {
	of := b.memory.ofBody(bytes)
	if !b.reserve(ctx, of, bytes) {
		return b.full()
	}
	if b.of != nil {
		b.of.discard(b.reserved)
	}
	b.of, b.reserved = of, bytes
	return nil
}

// grow replaces the buffer by a larger one, of at most so many bytes.
func (b *body) grow(ctx context.Context, limit int64) error {
	if b.of == b.memory.small {
		if err := b.claim(ctx, limit+limit/4); err != nil { // the buffer, and the one that is copied into it
			return err
		}
		b.client.end()
		b.client = b.of.clients.begin(b.client.abort)
	}
	larger := append(make([]byte, 0, min(4*int64(cap(b.text)), limit)), b.text...)
	b.buffers.put(b.text)
	b.text = larger
	return nil
}

// complete records that the body has been read: it keeps no more memory than it needs.
func (b *body) complete() {
	b.client.end()
	b.client = nil
	if rest := b.reserved - int64(cap(b.text)); rest > 0 {
		b.of.discard(rest)
		b.reserved -= rest
	}
}

// release releases the memory of the body, once.
func (b *body) release() {
	b.client.end()
	b.buffers.put(b.text)
	if b.of != nil {
		b.of.discard(b.reserved)
	}
	b.memory.small.Release(b.beside)
	b.client, b.text, b.of, b.beside = nil, nil, nil, 0
}

// buffers are pools of buffers for bodies: of smallBytes, and of 4 and 16 times as many.
type buffers [3]sync.Pool

// bufferSize returns the size of the buffer for a number of bytes.
func bufferSize(bytes int64) int64 {
	for size := int64(smallBytes); bytes >= smallBytes/16 && size <= smallBytes<<4; size *= 4 {
		if bytes <= size {
			return size
		}
	}
	return bytes
}

// pool returns the pool for a size; nil: there is none.
func (b *buffers) pool(size int64) *sync.Pool {
	for i := range b {
		if size == smallBytes<<(2*i) {
			return &b[i]
		}
	}
	return nil
}

// get returns an empty buffer of a size.
func (b *buffers) get(size int64) []byte {
	if pool := b.pool(size); pool != nil {
		if buffer, ok := pool.Get().(*[]byte); ok {
			return (*buffer)[:0]
		}
	}
	return make([]byte, 0, size)
}

// put returns a buffer to its pool, if there is one.
func (b *buffers) put(buffer []byte) {
	if pool := b.pool(int64(cap(buffer))); pool != nil {
		pool.Put(&buffer)
	}
}

// full rejects a request for lack of memory.
func (s *Server) full() error {
	return refuse(http.StatusServiceUnavailable,
		"other requests and answers use all of serve.memory, %d bytes: send it again", s.options.Memory)
}

// unpacked decompresses its input. It starts with the first read, which may wait for the body.
type unpacked struct {
	from io.Reader
	gzip *gzip.Reader
}

func (u *unpacked) Read(p []byte) (n int, err error) {
	if u.gzip == nil {
		if u.gzip, err = gzip.NewReader(bufio.NewReader(u.from)); err != nil {
			if err == io.EOF { // of an empty body: gzip has a header
				err = io.ErrUnexpectedEOF
			}
			return 0, fmt.Errorf("decompress it: %w", err)
		}
	}
	if n, err = u.gzip.Read(p); err != nil && err != io.EOF {
		err = fmt.Errorf("decompress it: %w", err)
	}
	return n, err
}
