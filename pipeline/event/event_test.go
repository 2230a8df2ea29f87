package event

import (
	"errors"
	"sync"
	"testing"
)

// counter counts events without any care for concurrency.
type counter int

func (c *counter) Record(Event) { *c++ }

// A serialised recorder loses no event, however many goroutines record.
func TestSerialised(t *testing.T) {
	const goroutines, each = 8, 1000
	c := counter(0)
	rec := Serialised(&c)
	var recording sync.WaitGroup
	for range goroutines {
		recording.Go(func() {
			for range each {
				rec.Record(Noticed{})
			}
		})
	}
	recording.Wait()
	if c != goroutines*each {
		t.Errorf("%d events, expected %d", c, goroutines*each)
	}
}

// stringer fails the test when somebody asks for its text.
type stringer struct{ t *testing.T }

func (s stringer) String() string {
	s.t.Error("a notice is formatted although nobody listens")
	return ""
}

// A notice, or a skipped message, is recorded as one text. Ignore does not make the text.
func TestNotice(t *testing.T) {
	rec := &texts{}
	Notice(rec, "%d of %d", 1, 2)
	Skip(rec, "weights", errors.New("damaged"))
	if len(*rec) != 2 || (*rec)[0] != "1 of 2" || (*rec)[1] != "skipping a message of the weights topic: damaged" {
		t.Errorf("%q", *rec)
	}
	Notice(Ignore{}, "%v", stringer{t})
}

type texts []string

func (r *texts) Record(e Event) { *r = append(*r, e.(Noticed).Text) }
