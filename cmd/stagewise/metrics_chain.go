package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/run/event"
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
	holdoutErrorRatio                                            *prometheus.GaugeVec
	messagesBehind, rowsBehind                                   *prometheus.GaugeVec
}

// newChainMetrics makes the metrics with the functions of newMetrics.
func newChainMetrics(
	counter func(name, help string) prometheus.Counter, gauges func(name, help string, labels ...string) *prometheus.GaugeVec,
	counters func(name, help, label string, values ...string) *prometheus.CounterVec,
) *chainMetrics {
	return &chainMetrics{
		versions:               counters("versions_total", "Versions that this process has made, by kind.", "kind", schemas.RunFull, schemas.RunUpdate),
		rows:                   counter("learnt_rows_total", "New training rows of the versions."),
		forgotten:              counter("forgotten_rows_total", "Rows that versions left out because they are to be forgotten."),
		unknown:                counter("unknown_class_rows_total", "New rows of labels that are no class. Versions have left them out."),
		bad:                    counter("bad_messages_alarms_total", "Versions most of whose new messages could not be used."),
		drifts:                 counter("drift_alarms_total", "Versions whose rows showed that the stream has changed."),
		withheld:               counter("withheld_versions_total", "Versions that subscribers do not get, as they are worse than the one that is offered."),
		lost:                   counter("lost_messages_total", "Messages of the examples topic that it deleted before a version had learnt them."),
		gone:                   counter("gone_rows_total", "Rows that left the window because the examples topic no longer holds them."),
		replaced:               counter("replaced_partitions_total", "Times that a partition of the examples topic held other messages than versions had learnt: it was truncated, or made anew."),
		incomplete:             counter("incomplete_versions_total", "Versions that were passed over, as a part of them was not on the versions topic."),
		version:                gauges("version", "Number of the newest version."),
		offered:                gauges("offered_version", "Number of the newest version that subscribers get."),
		offeredAt:              gauges("offered_timestamp_seconds", "When it was made, in Unix time."),
		learntAt:               gauges("learnt_timestamp_seconds", "When the newest message was written that a version has learnt, in Unix time."),
		window:                 gauges("window_rows", "Rows of the window."),
		seconds:                gauges("version_seconds", "How long the newest version took, from its plan."),
		prequentialError:       gauges("prequential_error_ratio", "Rate of wrong predictions of new rows before they were learnt, from 0 to 1, of the newest update."),
		prequentialLoss:        gauges("prequential_loss", "Mean loss of new rows before they were learnt, of the newest update."),
		prequentialLogLoss:     gauges("prequential_log_loss", "Log loss of the probabilities of these rows."),
		prequentialBrier:       gauges("prequential_brier_score", "Brier score of these rows."),
		prequentialCalibration: gauges("prequential_calibration_error_ratio", "Expected calibration error of these rows, from 0 to 1."),
		messagesBehind:         gauges("behind_messages", "Messages of the examples topic that no version had looked at when the last cut was made."),
		rowsBehind:             gauges("behind_rows", "Rows of these messages. Those of messages that were not read yet are estimated by the ones that were."),
		holdoutErrorRatio:      gauges("holdout_error_ratio", "Rate of wrong predictions of the holdout rows that the newest version visited, from 0 to 1."),
	}
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
}

// behind notes how much the topic has that no version has learnt.
func (m *chainMetrics) behind(e event.Behind) {
	m.messagesBehind.WithLabelValues().Set(float64(e.Messages))
	m.rowsBehind.WithLabelValues().Set(float64(e.Rows))
}
