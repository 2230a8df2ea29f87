package serve

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// packed compresses a text.
func packed(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must(w.Write(text))(t)
	noError(t, w.Close())
	return b.Bytes()
}

// A gzip body is answered like an uncompressed one; the limits apply to both the decompressed and the compressed size.
// Other encodings are rejected with the supported one.
func TestCompressedBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	m := newModel(t, 3, 2, nil, layout.MissingError)
	o := Defaults()
	o.MaxBody, o.Memory = 1<<20, 1<<20
	s := newServer(t, o, Fixed(m))
	rows, body := someRows(t, 900)
	for _, encoding := range []string{"gzip", "GZIP", "x-gzip"} {
		checkAnswer(t, askWith(s, typeJSON, packed(t, body), "Content-Encoding", encoding), m, rows...)
	}
	checkAnswer(t, askWith(s, typeJSON, append(packed(t, body[:100]), packed(t, body[100:])...), "Content-Encoding", "gzip"), m, rows...)
	checkAnswer(t, askWith(s, typeJSON, body, "Content-Encoding", "identity"), m, rows...)
	whole := packed(t, body)
	for name, c := range map[string]struct {
		body     []byte
		encoding string
		status   int
		want     string
	}{
		"bomb":      {packed(t, make([]byte, 100<<20)), "gzip", http.StatusRequestEntityTooLarge, "more than 1048576 bytes"},
		"cut off":   {whole[:len(whole)-9], "gzip", http.StatusBadRequest, "decompress it"},
		"plain":     {body, "gzip", http.StatusBadRequest, "decompress it: gzip: invalid header"},
		"empty":     {nil, "gzip", http.StatusBadRequest, "decompress it"},
		"checksum":  {append(append([]byte{}, whole[:len(whole)-5]...), 0, 0, 0, 0, 0), "gzip", http.StatusBadRequest, "decompress it"},
		"br":        {body, "br", http.StatusUnsupportedMediaType, `Content-Encoding "br": expected gzip`},
		"two":       {whole, "gzip, gzip", http.StatusUnsupportedMediaType, "expected gzip"},
		"many zero": {packed(t, []byte(strings.Repeat("0", 1<<20+1))), "gzip", http.StatusRequestEntityTooLarge, "more than 1048576 bytes"},
	} {
		w := askWith(s, typeJSON, c.body, "Content-Encoding", c.encoding)
		if got := reason(t, w); w.Code != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d: %s, expected %d: %s", name, w.Code, got, c.status, c.want)
		}
		if c.status == http.StatusUnsupportedMediaType && w.Header().Get("Accept-Encoding") != "gzip" {
			t.Errorf("%s: Accept-Encoding %q", name, w.Header().Get("Accept-Encoding"))
		}
	}
	checkFree(t, s)
}

// A compressed body holds memory for the bytes that were sent, and then for those that it has, but none for the largest body.
func TestMemoryOfCompressedBodies(t *testing.T) {
	m := newModel(t, 3, 2, nil, layout.MissingError)
	s := newServer(t, Defaults(), Fixed(m))
	rows, body := someRows(t, 10_000)
	sent := packed(t, body)
	for _, part := range s.memory.bodies {
		part.TryAcquire(part.size)
	}
	s.memory.bodies[1].Release(int64(len(sent)))
	s.memory.bodies[0].Release(smallBytes)
	checkAnswer(t, askWith(s, typeJSON, sent, "Content-Encoding", "gzip"), m, rows...)
}
