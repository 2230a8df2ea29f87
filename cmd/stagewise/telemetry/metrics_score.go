package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/event"
)

// scoreMetrics are those of a process that predicts for a topic.
type scoreMetrics struct {
	messages, rows, bad prometheus.Counter
	version, behind     *prometheus.GaugeVec
	without             string // why messages wait for a version; "": there is one
}

// newScoreMetrics makes the metrics with the functions of newMetrics.
func newScoreMetrics(counter func(name, help string) prometheus.Counter,
	gauges func(name, help string, labels ...string) *prometheus.GaugeVec) *scoreMetrics {
	return &scoreMetrics{
		without:  "no version has been read yet",
		messages: counter("scored_messages_total", "Messages with predictions written by this process."),
		rows:     counter("scored_rows_total", "Rows of these messages."),
		bad:      counter("scored_bad_messages_total", "Messages that can't be used: their predictions have the reason."),
		version:  gauges("scoring_version", "Number of the version that made the last predictions."),
		behind: gauges("scoring_lag_messages", "Offsets after the last message with predictions, by partition of this process.",
			"partition"),
	}
}

func (m *scoreMetrics) record(e event.Event) {
	switch e := e.(type) {
	case event.Answers:
		if m.without = ""; e.Version == 0 {
			m.without = e.Why.Error()
		}
	case event.Scored:
		m.messages.Add(float64(e.Messages))
		m.rows.Add(float64(e.Rows))
		m.bad.Add(float64(e.Bad))
		m.version.WithLabelValues().Set(float64(e.Version))
	case event.ScoringLag:
		m.behind.Reset() // another process may have a partition now
		for partition, offsets := range e.Offsets {
			m.behind.WithLabelValues(strconv.Itoa(partition)).Set(float64(offsets))
		}
	}
}
