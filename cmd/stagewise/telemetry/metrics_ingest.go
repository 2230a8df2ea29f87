package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// ingestMetrics are those of a process that ingests a topic.
type ingestMetrics struct {
	rows    prometheus.Counter
	lost    *prometheus.CounterVec
	waiting *prometheus.GaugeVec
	written map[string]int64 // by source, the rows of the last event
	lag     int64            // messages of the topic that wait
}

// newIngestMetrics makes the metrics with the functions of newMetrics.
func newIngestMetrics(
	counter func(name, help string) prometheus.Counter, counters func(name, help, label string, values ...string) *prometheus.CounterVec,
	gauges func(name, help string, labels ...string) *prometheus.GaugeVec,
) *ingestMetrics {
	return &ingestMetrics{
		rows: counter("ingested_rows_total", "Rows written to the examples topic by this process."),
		lost: counters("lost_column_rows_total", "Rows quarantined by this process because they lack a column that earlier rows had, by "+
			"column.", "column"),
		waiting: gauges("source_lag_messages", "Messages of the source topic not yet ingested."),
		written: map[string]int64{},
	}
}

// record counts an event.
func (m *ingestMetrics) record(e event.Event) {
	switch e := e.(type) {
	case event.Ingested:
		if e.Known {
			return
		}
		source := strings.Join(e.Files, "\n")
		before := m.written[source]
		if e.Rows < before { // the source is read from where others have got to
			before = 0
		}
		m.rows.Add(float64(e.Rows - before))
		m.written[source] = e.Rows
	case event.ColumnLost:
		m.lost.WithLabelValues(e.Column).Add(float64(e.Rows))
	case event.StoodBy:
		if e.Role == protocol.RoleIngest {
			m.lag = 0
			m.waiting.Reset()
		}
	case event.SourceLag:
		m.lag = e.Messages
		m.waiting.WithLabelValues().Set(float64(e.Messages))
	}
}
