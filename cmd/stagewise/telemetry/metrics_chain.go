package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
)

// chainMetrics are the metrics of a process that retrains. A metric of a version has no value before the first one that this process makes.
type chainMetrics struct {
	versions                                                     *prometheus.CounterVec
	rows, forgotten, unknown, drifts, bad, withheld              prometheus.Counter
	lost, gone, replaced, incomplete                             prometheus.Counter
	version, offered, offeredAt, learntAt                        *prometheus.GaugeVec
	window, seconds                                              *prometheus.GaugeVec
	prequentialError, prequentialLoss                            *prometheus.GaugeVec
	prequentialLogLoss, prequentialBrier, prequentialCalibration *prometheus.GaugeVec
	servedError, servedRows                                      *prometheus.GaugeVec // by version
	holdoutErrorRatio                                            *prometheus.GaugeVec
	messagesBehind, rowsBehind                                   *prometheus.GaugeVec
	left                                                         event.Behind // of the examples topic, when the last cut was made
	gauges                                                       []*prometheus.GaugeVec
}

// newChainMetrics makes the metrics with the functions of newMetrics.
func newChainMetrics(
	counter func(name, help string) prometheus.Counter, vector func(name, help string, labels ...string) *prometheus.GaugeVec,
	counters func(name, help, label string, values ...string) *prometheus.CounterVec,
) *chainMetrics {
	var all []*prometheus.GaugeVec
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		all = append(all, vector(name, help, labels...))
		return all[len(all)-1]
	}
	m := &chainMetrics{
		versions: counters("versions_total", "Versions made by this process, by kind.", "kind", schemas.RunFull,
			schemas.RunUpdate),
		rows:      counter("learnt_rows_total", "New training rows of these versions."),
		forgotten: counter("forgotten_rows_total", "Forgotten rows that versions left out."),
		unknown:   counter("unknown_class_rows_total", "New rows that versions left out because their label is not a class."),
		bad:       counter("bad_messages_alarms_total", "Versions with mostly unusable new messages."),
		drifts:    counter("drift_alarms_total", "Versions with detected drift of the stream."),
		withheld: counter("withheld_versions_total",
			"Versions withheld from subscribers as worse than the offered version."),
		lost: counter("lost_messages_total",
			"Messages deleted from the examples topic before a version learnt them."),
		gone: counter("gone_rows_total", "Rows that left the window because they are no longer on the examples topic."),
		replaced: counter("replaced_partitions_total", "Partitions of the examples topic found truncated or recreated after versions "+
			"had learnt from them."),
		incomplete: counter("incomplete_versions_total",
			"Versions skipped because a part of them was missing from the versions topic."),
		version:   gauges("version", "Number of the newest version."),
		offered:   gauges("offered_version", "Number of the newest offered version."),
		offeredAt: gauges("offered_timestamp_seconds", "Unix time when the newest offered version was made."),
		learntAt: gauges("learnt_timestamp_seconds",
			"Unix time of the newest message learnt by a version."),
		window:  gauges("window_rows", "Rows of the window, without forgotten ones."),
		seconds: gauges("version_seconds", "Seconds from the plan of the newest version to its end."),
		prequentialError: gauges("prequential_error_ratio",
			"Error rate of the newest update on new rows before they were learnt, from 0 to 1."),
		prequentialLoss:        gauges("prequential_loss", "Mean loss of the newest update on new rows before they were learnt."),
		prequentialLogLoss:     gauges("prequential_log_loss", "Log loss of the probabilities of these rows."),
		prequentialBrier:       gauges("prequential_brier_score", "Brier score of these rows."),
		prequentialCalibration: gauges("prequential_calibration_error_ratio", "Expected calibration error of these rows, from 0 to 1."),
		servedError: gauges("served_error_ratio", "Error rate of served predictions, on the new rows of the newest update that have "+
			"one, from 0 to 1.", "version"),
		servedRows: gauges("served_rows", "New rows of the newest update for which a version answered.", "version"),
		messagesBehind: gauges("behind_messages", "Messages not learnt by any version: batches of rows of the topic examples at the last cut, "+
			"and messages of the topic source that are not ingested yet.", "topic"),
		rowsBehind: gauges("behind_rows", "Rows of these messages. Rows of unread messages are estimated; a message that is not "+
			"ingested counts as one row."),
		holdoutErrorRatio: gauges("holdout_error_ratio",
			"Error rate on the holdout rows visited by the newest version, from 0 to 1."),
	}
	m.gauges = all
	return m
}

// record counts a version.
func (m *chainMetrics) record(r event.Retrained, now time.Time) {
	set := func(g *prometheus.GaugeVec, value float64) { g.WithLabelValues().Set(value) }
	measured := func(g *prometheus.GaugeVec, value *float64, unit float64) {
		if value != nil {
			set(g, *value/unit)
		}
	}
	m.versions.WithLabelValues(r.Kind).Inc()
	m.rows.Add(float64(r.Rows))
	m.forgotten.Add(float64(r.Forgotten))
	m.unknown.Add(float64(r.UnknownRows))
	m.lost.Add(float64(r.Lost))
	m.gone.Add(float64(r.Gone))
	if r.MostlyBad != nil {
		m.bad.Inc()
	}
	if r.Drift {
		m.drifts.Inc()
	}
	set(m.version, float64(r.Version))
	if r.Offered {
		set(m.offered, float64(r.Version))
		set(m.offeredAt, float64(now.UnixMilli())/1000)
	} else {
		m.withheld.Inc()
	}
	if r.Until > 0 {
		set(m.learntAt, float64(r.Until)/1000)
	}
	set(m.window, float64(r.WindowRows))
	set(m.seconds, r.Seconds)
	measured(m.prequentialError, r.PrequentialError, 100)
	measured(m.prequentialLoss, r.PrequentialLoss, 1)
	measured(m.prequentialLogLoss, r.PrequentialLogLoss, 1)
	measured(m.prequentialBrier, r.PrequentialBrier, 1)
	measured(m.prequentialCalibration, r.PrequentialECE, 1)
	measured(m.holdoutErrorRatio, r.HoldoutError, 100)
	if r.Kind == schemas.RunUpdate {
		m.servedError.Reset() // so that there are no more versions than the newest update has
		m.servedRows.Reset()
		for _, s := range r.Served {
			version := strconv.Itoa(s.Version)
			m.servedError.WithLabelValues(version).Set(s.Error / 100)
			m.servedRows.WithLabelValues(version).Set(float64(s.Rows))
		}
	}
}

// behind notes how much of the examples topic no version has learnt, given how many messages of the source topic are not ingested yet.
func (m *chainMetrics) behind(left event.Behind, source int64) {
	m.left = left
	m.messagesBehind.WithLabelValues("examples").Set(float64(left.Messages))
	m.rowsBehind.WithLabelValues().Set(float64(left.Rows + source))
}

// sourceBehind notes how many messages of the source topic are not ingested yet. They are not added to those of the examples, which are
// batches of rows.
func (m *chainMetrics) sourceBehind(messages int64) {
	m.messagesBehind.WithLabelValues("source").Set(float64(messages))
	m.rowsBehind.WithLabelValues().Set(float64(m.left.Rows + messages))
}
