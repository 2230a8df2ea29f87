package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/internal/option"
)

// memories are the parts of serve.memory. A request reserves memory for its body, then for its rows, and then for the answer so far. It
// waits only for the first two, and requests that hold them do not wait for it. No request waits for the memory of answers: otherwise
// other answers would be rejected meanwhile, because a [semaphore.Weighted] with waiters grants nothing to requests that do not wait.
// Small requests have memory of their own: large ones do not make them wait.
type memories struct{ bodies, rows, answers [2]*budget }

// budget is a part of serve.memory.
type budget struct {
	*semaphore.Weighted
	size int64
}

func newBudget(size int64) *budget { return &budget{semaphore.NewWeighted(size), size} }

const (
	// smallBytes is the maximum size of a body, of rows or of an answer in the memory of small requests.
	smallBytes = 64 << 10
	// workspaceBytes is the memory of each workspace for the rows of a request. Only larger rows need memory of their own.
	workspaceBytes = 1 << 20
)

// newMemories divides the memory of the options. Each part has at least what a single request may need.
func newMemories(o *Options) memories {
	part := func(sixteenths, least option.Bytes) *budget {
		return newBudget(int64(max(o.Memory/16*sixteenths, least)))
	}
	small := part(1, 1<<19)
	return memories{
		bodies:  [2]*budget{part(1, 1<<19), part(4, o.MaxBody*3/2+smallBytes)},
		rows:    [2]*budget{small, part(7, 9<<20)},
		answers: [2]*budget{small, part(3, 3<<20)},
	}
}

// maxAnswer is the maximum size of an answer, a sixteenth of the memory.
func (m *memories) maxAnswer() int64 { return m.answers[1].size / 3 }

// maxRows is the maximum memory for the rows of a request.
func (m *memories) maxRows() int64 { return m.rows[1].size }

// claim is memory that a request has reserved.
type claim struct {
	of    *budget
	bytes int64
}

// claim reserves memory, and waits for it for at most half of the timeout.
func (s *Server) claim(ctx context.Context, parts *[2]*budget, bytes int64) (c claim, err error) {
	c = claim{partOf(parts, bytes), bytes}
	if c.of.TryAcquire(bytes) {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout/2)
	defer cancel()
	if c.of.Acquire(ctx, bytes) != nil {
		return claim{}, s.full()
	}
	return c, nil
}

// partOf returns the part for a number of bytes.
func partOf(parts *[2]*budget, bytes int64) *budget {
	if bytes <= smallBytes {
		return parts[0]
	}
	return parts[1]
}

// grow reserves a total number of bytes without waiting.
func (c *claim) grow(parts *[2]*budget, bytes int64) bool {
	of, held := partOf(parts, bytes), c.bytes
	if of != c.of {
		held = 0
	}
	switch {
	case bytes <= c.bytes:
		return true
	case !of.TryAcquire(bytes - held):
		return false
	case held == 0:
		c.release()
	}
	*c = claim{of, bytes}
	return true
}

// shrink releases all but a number of bytes.
func (c *claim) shrink(bytes int64) {
	if rest := c.bytes - bytes; rest > 0 {
		c.of.Release(rest)
		c.bytes = bytes
	}
}

// release releases the memory.
func (c *claim) release() { c.shrink(0) }

// full rejects a request for lack of memory.
func (s *Server) full() error {
	return refuse(http.StatusServiceUnavailable,
		"other requests and answers use all of serve.memory, %d bytes: send it again", s.options.Memory)
}

const (
	valueBytes = 8   // of a value of a sparse row: its index and itself
	itemBytes  = 24  // of a value in an object of columns, besides its text
	wordBytes  = 128 // of a column of a text: in a map, in lists and in the row
	nameBytes  = 96  // of a member of an object with many: in the set of its names
)

// ofValues returns the memory for values of sparse rows: in a block of twice the size, as examples, prepared, and those that the
// model uses.
func ofValues(v *version, n int64) int64 {
	return 4*valueBytes*n + 2*valueBytes*min(n, int64(v.Width()))
}

// ofTexts returns the memory for texts of n bytes: copies, and their words.
func ofTexts(v *version, n int64) int64 {
	return 3*n + wordBytes*min(int64(v.options.Words.Columns), int64(v.options.Words.Phrases)*(n/2+1))
}

// ofJSON returns the memory that the rows of a JSON body take at most.
func ofJSON(v *version, m measured) int64 {
	const shortest = int64(len(`"":0,`))
	need := nameBytes * min(m.colons, m.bytes/shortest)
	switch {
	case !v.Sparse():
		need += 2 * m.bytes // copies of texts, with and without escapes
	case v.options.Text != "" || v.options.Mixed():
		need += ofTexts(v, m.bytes)
	default:
		need += ofValues(v, m.commas+1)
	}
	return need
}

// ofArrow returns the memory that the rows of an Arrow body take if it has neither compressed buffers nor dictionaries.
func ofArrow(v *version, bytes int64) int64 {
	switch {
	case !v.Sparse():
		return bytes
	case v.options.Text != "" || v.options.Mixed():
		return bytes + ofTexts(v, bytes)
	}
	return bytes + ofValues(v, bytes/valueBytes)
}

// needs sets the memory that the rows need, and a body that is decompressed. Dense rows of JSON are read one by one, and mostly take much
// less: they may reserve all of the memory, and are not rejected.
func (p *prediction) needs(m measured, packed bool) {
	p.bodyBytes = m.bytes
	most := p.memory.maxRows()
	switch p.sent {
	case typeJSON:
		p.rowBytes = max(0, ofJSON(p.version, m)-workspaceBytes)
	case mlflow:
		p.rowBytes = max(0, ofJSON(p.version, m)-workspaceBytes) + itemBytes*m.commas
	case openInference: // with what addTensor reserves for values in JSON, which are slow to read again
		p.rowBytes = min(max(0, ofArrow(p.version, m.bytes)+2*m.bytes+(textBytes+8)*m.commas-workspaceBytes), most)
	default:
		p.rowBytes = min(max(0, ofArrow(p.version, m.bytes)-workspaceBytes), most)
	}
	if packed {
		p.rowBytes += m.bytes + unpackBytes
	}
	if !p.Sparse() {
		p.rowBytes = min(p.rowBytes, most)
	}
}

// unpack reserves memory for rows of Arrow. They may unpack to the maximum size of a body.
func (p *prediction) unpack(add arrow.Unpacked) error {
	u, most := &p.unpacked, int(p.Server.options.MaxBody)
	u.Buffers, u.Texts, u.Values = u.Buffers+add.Buffers, u.Texts+add.Texts, u.Values+add.Values
	if u.Buffers > most || u.Texts > most {
		return refuse(http.StatusRequestEntityTooLarge, "the rows have more than %d bytes when unpacked: send fewer at a time", most)
	}
	rows := p.bodyBytes + int64(u.Buffers+p.again) + ofValues(p.version, int64(u.Values)) // buffers may be copied
	if p.version.options.Text != "" || p.version.options.Mixed() {
		rows += ofTexts(p.version, int64(u.Texts))
	}
	if p.rowBytes = max(p.rowBytes, rows-workspaceBytes); p.rowBytes > p.held.bytes {
		return p.full() // unless it is read again, with more memory
	}
	return nil
}

// unpackAgain reserves memory for further bytes that the rows take in another form.
func (p *prediction) unpackAgain(bytes int) error {
	p.again += bytes
	return p.unpack(arrow.Unpacked{})
}

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
	if isCall(r) {
		limit += frameBytes
	}
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
			if whole := (limit + 1) * 5 / 4; b.claim.bytes < whole { // the buffer, and the one that is copied into it
				larger, err := s.claim(r.Context(), &s.memory.bodies, whole)
				if err != nil {
					return nil, err
				}
				b.claim.release()
				b.claim = larger
			}
			b.text = append(make([]byte, 0, min(4*int64(cap(b.text)), limit+1)), b.text...)
		}
		n, err := from.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		switch {
		case err == nil:
		case err == io.EOF:
			b.shrink(int64(cap(b.text)))
			if isCall(r) {
				return b, b.unframe(r)
			}
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

// unpack writes the decompressed body, truncated to a number of bytes.
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

// rows returns the rows, and releases the body as sent if it is compressed: the caller has reserved memory for n bytes.
func (b *body) rows(n int64) ([]byte, error) {
	if !b.packed {
		return b.text, nil
	}
	text := bytes.NewBuffer(make([]byte, 0, n+bytes.MinRead)) // without bytes.MinRead, the buffer grows to detect the end
	if err := b.unpack(text, n); err != nil {
		return nil, fmt.Errorf("decompress a body again: %w", err)
	}
	b.release()
	return text.Bytes(), nil
}
