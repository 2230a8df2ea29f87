package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/event"
)

// Writes is a recorder that counts repeated writes, and passes all events on. It is for a process whose other metrics are its own: it
// registers Writes among them. [NewWrites] makes it.
type Writes struct {
	*prometheus.CounterVec
	to event.Recorder
}

// NewWrites returns a recorder that passes events on.
func NewWrites(to event.Recorder) Writes {
	opts := prometheus.CounterOpts{Namespace: namespace, Name: repeatedWrites, Help: repeatedWritesHelp}
	return Writes{prometheus.NewCounterVec(opts, []string{"topic"}), to}
}

// Record counts a repeated write.
func (w Writes) Record(e event.Event) {
	if e, ok := e.(event.Rewritten); ok {
		w.WithLabelValues(e.Topic).Inc()
	}
	w.to.Record(e)
}
