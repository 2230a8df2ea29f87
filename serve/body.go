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

// uncompressed is the content encoding of an unencoded body.
const uncompressed = "identity"

// unpackBytes is the memory for decompressing a body besides the body: the window of 32 KiB, tables, and a buffer.
const unpackBytes = 48 << 10

// body is the body of a request, with the memory reserved for it before it is read: for its announced length, or for a small
// body, and then for the largest one. So a body that waits for memory holds little of it.
type body struct {
	text []byte
	claim
}

// read reads and decompresses the body of a request. The caller releases it when it is no longer needed.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (_ *body, err error) {
	limit := int64(s.options.MaxBody)
	tooLarge := func() error {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes: send fewer rows at a time", limit)
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	b := &body{}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	size, beside, from := r.ContentLength, int64(0), io.Reader(http.MaxBytesReader(w, r.Body, limit))
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", uncompressed:
	case "gzip", "x-gzip":
		size, from = -1, &unpacked{from: from}
	default:
		w.Header().Set("Accept-Encoding", "gzip")
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Encoding %.40q: expected gzip, or none", encoding)
	}
	if size < 0 { // of any length, perhaps a small one
		size, beside = smallBytes-unpackBytes, unpackBytes
	}
	if b.claim, err = s.claim(r.Context(), &s.memory.bodies, size+beside); err != nil {
		return nil, err
	}
	b.text = make([]byte, 0, size+1) // a byte to see the end
	for {
		if len(b.text) == cap(b.text) {
			if err := b.grow(s, r, limit+1); err != nil {
				return nil, err
			}
		}
		n, err := from.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		switch {
		case int64(len(b.text)) > limit:
			return nil, tooLarge()
		case err == nil:
		case err == io.EOF:
			b.shrink(int64(cap(b.text)))
			return b, nil
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, tooLarge()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, refuse(http.StatusRequestTimeout, "the body did not arrive within %v", s.options.Timeout)
		default:
			return nil, refuse(http.StatusBadRequest, "the body can't be read: %v", err)
		}
	}
}

// release releases the body and its memory.
func (b *body) release() {
	b.text = nil
	b.claim.release()
}

// grow replaces the buffer by a larger one, of at most so many bytes.
func (b *body) grow(s *Server, r *http.Request, limit int64) error {
	if whole := limit + limit/4 + unpackBytes; b.claim.bytes < whole { // the buffer, and the one that is copied into it
		larger, err := s.claim(r.Context(), &s.memory.bodies, whole)
		if err != nil {
			return err
		}
		b.claim.release()
		b.claim = larger
	}
	b.text = append(make([]byte, 0, min(4*int64(cap(b.text)), limit)), b.text...)
	return nil
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
