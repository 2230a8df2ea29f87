package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// ingestMetrics are those of a process that ingests a topic.
type ingestMetrics struct {
	rows             prometheus.Counter
	lost             *prometheus.CounterVec
	waiting          *prometheus.GaugeVec
	written          map[string]int64     // by source, the rows of the last event
	lag              int64                // messages of the topic that wait
	joined, outcomes *prometheus.GaugeVec // by what they have become
	disorder         *prometheus.GaugeVec
}

// newIngestMetrics makes the metrics with the functions of newMetrics.
func newIngestMetrics(
	counter func(name, help string) prometheus.Counter, counters func(name, help, label string, values ...string) *prometheus.CounterVec,
	gauges func(name, help string, labels ...string) *prometheus.GaugeVec,
) *ingestMetrics {
	return &ingestMetrics{
		rows: counter("ingested_rows_total", "Rows written to the examples topic by this process."),
		lost: counters("lost_column_rows_total", "Rows, ingested by this process, that lack a column that earlier rows had, by column. They "+
			"are quarantined, unless the column is optional.", "column"),
		waiting:  gauges("source_lag_messages", "Messages of the source topic not yet ingested."),
		written:  map[string]int64{},
		joined:   gauges("joined_rows", "Messages of the source topic that were joined with an outcome, or have none.", "state"),
		outcomes: gauges("joined_outcomes", "Outcomes that have a row, have none, or came after their row was decided.", "state"),
		disorder: gauges("outcome_disorder_seconds", "Maximum disorder of the outcomes that came after their row was decided."),
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
	case event.Joined:
		c := e.Counts
		m.joined.WithLabelValues("matched").Set(float64(c.Rows - c.Absent))
		m.joined.WithLabelValues("absent").Set(float64(c.Absent))
		m.outcomes.WithLabelValues("matched").Set(float64(c.Matched))
		m.outcomes.WithLabelValues("without_row").Set(float64(c.Alone()))
		m.outcomes.WithLabelValues("late").Set(float64(c.Late))
		m.disorder.WithLabelValues().Set(float64(c.Disorder) / 1000)
	case event.SourceLag:
		m.lag = e.Messages
		m.waiting.WithLabelValues().Set(float64(e.Messages))
	}
}
