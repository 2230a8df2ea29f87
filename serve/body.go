package serve

import (
	"bytes"
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
	text   []byte
	packed bool // text is compressed
	claim
}

// read reads the body of a request as it was sent. The caller releases it when it is no longer needed.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (_ *body, err error) {
	limit := int64(s.options.MaxBody)
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	b := &body{}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", uncompressed:
	case "gzip", "x-gzip":
		b.packed = true
	default:
		w.Header().Set("Accept-Encoding", "gzip")
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Encoding %.40q: expected gzip, or none", encoding)
	}
	size := r.ContentLength
	if size < 0 { // of any length, perhaps a small one
		size = smallBytes
	}
	if b.claim, err = s.claim(r.Context(), &s.memory.bodies, size); err != nil {
		return nil, err
	}
	b.text = make([]byte, 0, size+1) // a byte to see the end
	for from := http.MaxBytesReader(w, r.Body, limit); ; {
		if len(b.text) == cap(b.text) {
			if err := b.grow(s, r, limit+1); err != nil {
				return nil, err
			}
		}
		n, err := from.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		switch {
		case err == nil:
		case err == io.EOF:
			b.shrink(int64(cap(b.text)))
			return b, nil
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, tooLarge(limit)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, refuse(http.StatusRequestTimeout, "the body did not arrive within %v", s.options.Timeout)
		default:
			return nil, refuse(http.StatusBadRequest, "the body can't be read: %v", err)
		}
	}
}

func tooLarge(limit int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes: send fewer rows at a time", limit)
}

// release releases the body and its memory.
func (b *body) release() {
	b.text = nil
	b.claim.release()
}

// grow replaces the buffer by a larger one, of at most so many bytes.
func (b *body) grow(s *Server, r *http.Request, limit int64) error {
	if whole := limit + limit/4; b.claim.bytes < whole { // the buffer, and the one that is copied into it
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

// measured are numbers of bytes of a body that is not compressed: all, and those that bound the memory of its rows.
type measured struct{ bytes, colons, commas int64 }

// Write counts bytes.
func (m *measured) Write(text []byte) (int, error) {
	m.bytes += int64(len(text))
	m.colons += int64(bytes.Count(text, []byte{':'}))
	m.commas += int64(bytes.Count(text, []byte{','}))
	return len(text), nil
}

// measure counts the bytes of the body, which must have at most limit when it is decompressed.
func (b *body) measure(limit int64) (m measured, err error) {
	if !b.packed {
		_, err = m.Write(b.text)
	} else if err = b.unpack(&m, limit+1); err == nil && m.bytes > limit {
		err = tooLarge(limit)
	}
	return m, err
}

// unpack writes at most so many bytes of the decompressed body.
func (b *body) unpack(to io.Writer, most int64) error {
	from, err := gzip.NewReader(bytes.NewReader(b.text))
	if err == nil {
		_, err = io.Copy(to, io.LimitReader(from, most))
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body can't be read: decompress it: %v", err)
	}
	return nil
}

// rows returns the rows, and releases what was sent if it is compressed: the caller has reserved memory for n bytes.
func (b *body) rows(n int64) ([]byte, error) {
	if !b.packed {
		return b.text, nil
	}
	text := bytes.NewBuffer(make([]byte, 0, n+bytes.MinRead)) // without which a buffer grows to see the end
	if err := b.unpack(text, n); err != nil {
		return nil, fmt.Errorf("decompress a body again: %w", err)
	}
	b.release()
	return text.Bytes(), nil
}
