package serve

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// firstRead is how many bytes of a body are read at first.
const firstRead = 16 << 10

// uncompressed is how HTTP calls the encoding of a body that is not encoded.
const uncompressed = "identity"

// unpackBytes is what decompressing a body takes beside the body: the window of 32 KiB, tables, and a buffer.
const unpackBytes = 48 << 10

// spareMemory is what a request takes beside its body: a piece of the answer, and what decompressing takes.
const spareMemory = 4 << 20

// capacity returns how much memory requests and answers take together: what the options say, and if that is too little
// for the largest request, what it takes: its buffer, the one that is copied into it, and the rest.
func (o *Options) capacity() int64 { return max(o.Memory, o.MaxBody+1+o.MaxBody/2+spareMemory) }

// largerBuffer returns how large the buffer after one of a size is, of bodies that have at most so many bytes: four
// times as large, but none is between half of the largest and the largest, so that both find room while one is copied
// into the other.
func largerBuffer(size, limit int64) int64 {
	if next := max(firstRead, 4*size); 2*next <= limit {
		return next
	}
	return limit + 1
}

// read reads the body of a request, and decompresses it. The caller calls release when nothing needs it any more.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	limit := s.options.MaxBody
	tooLarge := func() error {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes: send fewer rows at a time", limit)
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge()
	}
	held := int64(0) // beside the buffer of the body
	give := func() {
		s.memory.Release(held)
		s.putBuffer(body)
	}
	defer func() {
		if err != nil {
			give()
		}
	}()
	body = s.bodies.likely(r.ContentLength)
	from := io.Reader(http.MaxBytesReader(w, r.Body, limit))
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", uncompressed:
	case "gzip", "x-gzip":
		if !s.reserve(r.Context(), unpackBytes) {
			return body, nil, s.full()
		}
		held += unpackBytes
		from = &unpacked{from: from}
	default:
		w.Header().Set("Accept-Encoding", "gzip")
		return body, nil, refuse(http.StatusUnsupportedMediaType, "Content-Encoding %.40q: expected gzip, or none", encoding)
	}
	for {
		if len(body) == cap(body) { // memory grows with what has come, whatever length was announced
			larger := s.grow(r.Context(), body, largerBuffer(int64(len(body)), limit))
			if larger == nil {
				return body, nil, s.full()
			}
			body = larger
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body, nil, tooLarge()
		case err == nil:
		case err == io.EOF:
			return body, give, nil
		case errors.As(err, new(*http.MaxBytesError)):
			return body, nil, tooLarge()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return body, nil, refuse(http.StatusRequestTimeout, "the body did not arrive within %v", s.options.Timeout)
		default:
			return body, nil, refuse(http.StatusBadRequest, "the body can't be read: %v", err)
		}
	}
}

// full refuses a request for which there is no memory.
func (s *Server) full() error {
	return refuse(http.StatusServiceUnavailable,
		"other requests and answers use all %d bytes of their limit: send it again", s.options.Memory)
}

// unpacked decompresses what it reads. It begins with the first read, which may wait for the body.
type unpacked struct {
	from io.Reader
	gzip *gzip.Reader
}

func (u *unpacked) Read(p []byte) (n int, err error) {
	if u.gzip == nil {
		if u.gzip, err = gzip.NewReader(bufio.NewReader(u.from)); err != nil {
			if err == io.EOF { // of no bytes at all: gzip has a header
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
