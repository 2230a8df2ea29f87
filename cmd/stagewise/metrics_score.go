package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/run/event"
)

// scoreMetrics are those of a process that predicts for a topic.
type scoreMetrics struct {
	messages, rows, bad prometheus.Counter
	version, behind     *prometheus.GaugeVec
}

// newScoreMetrics makes the metrics with the functions of newMetrics.
func newScoreMetrics(counter func(name, help string) prometheus.Counter, gauges func(name, help string, labels ...string) *prometheus.GaugeVec) *scoreMetrics {
	return &scoreMetrics{
		messages: counter("scored_messages_total", "Messages whose predictions this process has written."),
		rows:     counter("scored_rows_total", "Rows of these messages."),
		bad:      counter("scored_bad_messages_total", "Messages among them that can't be used: their predictions say why."),
		version:  gauges("scoring_version", "Number of the version that has predicted last."),
		behind:   gauges("scoring_lag_messages", "Offsets after the last message with predictions, by partition that this process has.", "partition"),
	}
}

func (m *scoreMetrics) record(e event.Event) {
	switch e := e.(type) {
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
