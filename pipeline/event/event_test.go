package event

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/assert"
)

// A serialised recorder loses no event, however many goroutines record.
func TestSerialised(t *testing.T) {
	const goroutines, each = 8, 1000
	c := 0
	rec := Serialised(func(Event) { c++ }) // without any care for concurrency
	var recording sync.WaitGroup
	for range goroutines {
		recording.Go(func() {
			for range each {
				rec.Record(Noticed{})
			}
		})
	}
	recording.Wait()
	assert.Equal(t, c, goroutines*each, "events")
}

// stringer fails the test when somebody asks for its text.
type stringer struct{ t *testing.T }

func (s stringer) String() string {
	s.t.Error("a notice is formatted although nobody listens")
	return ""
}

// A notice, or a skipped message, is recorded as one text. No recorder does not make the text.
func TestNotice(t *testing.T) {
	var texts []string
	rec := Recorder(func(e Event) { texts = append(texts, e.(Noticed).Text) })
	Notice(rec, "%d of %d", 1, 2)
	Skip(rec, "weights", errors.New("damaged"))
	assert.Equal(t, texts, []string{"1 of 2", "skipping a message of the weights topic: damaged"}, "texts")
	Notice(nil, "%v", stringer{t})
}

type recorded []string

func (r *recorded) Record(e Event) {
	if q, ok := e.(Quarantined); ok {
		*r = append(*r, fmt.Sprintf("%d of %s[%d]@%d", q.Messages, q.Topic, q.Partition, q.Offset))
	} else {
		*r = append(*r, fmt.Sprintf("%T", e))
	}
}

// Of unusable messages one is passed on a minute and partition, with their number; none is forgotten.
func TestGathered(t *testing.T) {
	now := time.Unix(1000, 0)
	var got recorded
	g := NewGathered((&got).Record, func() time.Time { return now })
	for i := range 100 {
		g.Record(Quarantined{Topic: "a", Partition: i % 2, Offset: int64(i)})
	}
	now = now.Add(59 * time.Second)
	g.Record(Behind{})
	now = now.Add(time.Second)
	g.Record(Behind{}) // any event shows that a minute is over
	g.Record(Quarantined{Topic: "a", Offset: 200})
	g.Record(Quarantined{Topic: "b", Offset: 7})
	now = now.Add(time.Hour)
	g.Record(Quarantined{Topic: "a", Offset: 201})
	g.Record(Quarantined{Topic: "a", Offset: 202})
	g.Finish()
	g.Finish()
	want := []string{"1 of a[0]@0", "1 of a[1]@1", "event.Behind", "49 of a[0]@98", "49 of a[1]@99", "event.Behind", "1 of b[0]@7", "2 of a[0]@201",
		"1 of a[0]@202"}
	assert.Equal(t, got, want, "events")
}
