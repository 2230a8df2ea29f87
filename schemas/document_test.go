package schemas

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A document of any length comes back whole, in whatever order and however often its messages come, and is never mixed with another.
func TestDocumentsRoundTrip(t *testing.T) {
	for _, length := range []int{0, 1, wire.DocumentChunk - 100, wire.DocumentChunk, wire.DocumentChunk + 1, 3 * wire.DocumentChunk} {
		long := &Manifest{Run: "run", Labels: []string{strings.Repeat("x", length)}}
		other := &Manifest{Run: "run", Labels: []string{strings.Repeat("y", length)}}
		messages := append(arrowtest.Must(long.Messages())(t), arrowtest.Must(other.Messages())(t)...)
		keys := map[string]bool{}
		for _, m := range messages {
			if keys[m.Key] = true; len(m.Value) > wire.MaxMessage-16<<10 {
				t.Errorf("a message of %d bytes", len(m.Value))
			}
		}
		if length > 0 && len(keys) != len(messages) {
			t.Errorf("%d keys for %d messages", len(keys), len(messages))
		}
		messages = append(messages, messages...)
		rand.New(rand.NewPCG(uint64(length), 1)).Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
		var documents wire.Documents
		found := map[byte]int{}
		for _, m := range messages {
			whole, ok, err := documents.Add(m)
			arrowtest.NoError(t, err)
			if ok {
				found[whole.Value[slices.Index(whole.Value, '[')+2]]++
			}
		}
		if length > 0 && (found['x'] == 0 || found['y'] == 0 || len(found) != 2) {
			t.Errorf("length %d: found %v", length, found)
		}
	}
}

// A document whose bytes are not those of its digest is damaged, and one that is too long is not written.
func TestDocumentsRefuse(t *testing.T) {
	m := arrowtest.Must((&Manifest{Run: "run"}).Messages())(t)[0]
	m.Value = append([]byte(" "), m.Value...)
	if _, ok, err := (&wire.Documents{}).Add(m); ok || !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("other bytes: %v, %v", ok, err)
	}
	m.Headers = nil
	if _, ok, err := (&wire.Documents{}).Add(m); ok || !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("no headers: %v, %v", ok, err)
	}
	if _, err := (&Manifest{Labels: []string{strings.Repeat("x", wire.MaxDocument)}}).Messages(); err == nil ||
		!strings.HasPrefix(err.Error(), "the manifest has ") {
		t.Errorf("a document of %d bytes: %v", wire.MaxDocument, err)
	}
}
