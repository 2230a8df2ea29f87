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

// firstRead is the initial buffer size for a body.
const firstRead = 16 << 10

// uncompressed is the content encoding of an unencoded body.
const uncompressed = "identity"

// unpackBytes is the memory for decompressing a body besides the body: the window of 32 KiB, tables, and a buffer.
const unpackBytes = 48 << 10

// spareMemory is the memory of a request besides its body: a chunk of the answer, and that for decompression.
const spareMemory = 4 << 20

// capacity returns the total memory for requests and answers: that of the options, or, if it is too small for the largest
// request, the memory needed for that: its buffer, the one copied into it, and the rest.
func (o *Options) capacity() int64 { return max(o.Memory, o.MaxBody+1+o.MaxBody/2+spareMemory) }

// largerBuffer returns the size of the next larger buffer, for bodies of at most limit bytes: four times as large, but
// never between half of the limit and the limit, so that both buffers fit while one is copied into the other.
func largerBuffer(size, limit int64) int64 {
	if next := max(firstRead, 4*size); 2*next <= limit {
		return next
	}
	return limit + 1
}

// read reads and decompresses the body of a request. The caller calls release when the body is no longer needed.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	limit := s.options.MaxBody
	tooLarge := func() error {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes: send fewer rows at a time", limit)
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge()
	}
	held := int64(0) // besides the buffer of the body
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
		if len(body) == cap(body) { // memory grows with the received bytes, not the announced length
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

// full rejects a request for lack of memory.
func (s *Server) full() error {
	return refuse(http.StatusServiceUnavailable,
		"other requests and answers use all %d bytes of their limit: send it again", s.options.Memory)
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
