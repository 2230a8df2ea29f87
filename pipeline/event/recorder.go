package event

import (
	"fmt"
	"sync"
)

// Recorder receives events as they happen. The progress bar, the logs, the metrics and the tests are recorders.
type Recorder interface {
	// Record is called from one goroutine at a time and must not block.
	Record(Event)
}

// Ignore is a recorder that ignores everything.
type Ignore struct{}

// Record does nothing.
func (Ignore) Record(Event) {}

// Notice records a message for the operator. It does not format the text for [Ignore]: reading a chain skips many
// messages, for which formatting would be too expensive.
func Notice(rec Recorder, format string, values ...any) {
	if rec != (Ignore{}) {
		rec.Record(Noticed{fmt.Sprintf(format, values...)})
	}
}

// Skip records that a message of a topic is skipped, with the reason.
func Skip(rec Recorder, topic string, err error) {
	Notice(rec, "skipping a message of the %s topic: %v", topic, err)
}

// Serialised returns a recorder that is safe for concurrent use.
func Serialised(to Recorder) Recorder { return &serialised{to: to} }

type serialised struct {
	mutex sync.Mutex
	to    Recorder
}

func (s *serialised) Record(e Event) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.to.Record(e)
}
