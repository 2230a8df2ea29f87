package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// chainMetrics are the metrics of a process that retrains. A metric of a version has no value before the first one that this process makes.
type chainMetrics struct {
	versions                                             *prometheus.CounterVec
	rows, forgotten, drifts, withheld                    prometheus.Counter
	version, offered, offeredAt, window, seconds         *prometheus.GaugeVec
	prequentialError, prequentialLoss, holdoutErrorRatio *prometheus.GaugeVec
}

// newChainMetrics makes the metrics with the functions of newMetrics.
func newChainMetrics(
	counter func(name, help string) prometheus.Counter, gauges func(name, help string, labels ...string) *prometheus.GaugeVec,
	counters func(name, help, label string, values ...string) *prometheus.CounterVec,
) *chainMetrics {
	return &chainMetrics{
		versions:          counters("versions_total", "Versions that this process has made, by kind.", "kind", schemas.RunFull, schemas.RunUpdate),
		rows:              counter("learnt_rows_total", "New training rows of the versions."),
		forgotten:         counter("forgotten_rows_total", "Rows that versions left out because they are to be forgotten."),
		drifts:            counter("drift_alarms_total", "Versions whose rows showed that the stream has changed."),
		withheld:          counter("withheld_versions_total", "Versions that subscribers do not get, as they are worse than the one that is offered."),
		version:           gauges("version", "Number of the newest version."),
		offered:           gauges("offered_version", "Number of the newest version that subscribers get."),
		offeredAt:         gauges("offered_timestamp_seconds", "When it was made, in Unix time."),
		window:            gauges("window_rows", "Rows of the window."),
		seconds:           gauges("version_seconds", "How long the newest version took, from its plan."),
		prequentialError:  gauges("prequential_error_ratio", "Rate of wrong predictions of new rows before they were learnt, from 0 to 1, of the newest update."),
		prequentialLoss:   gauges("prequential_loss", "Mean loss of new rows before they were learnt, of the newest update."),
		holdoutErrorRatio: gauges("holdout_error_ratio", "Rate of wrong predictions of the holdout rows that the newest version visited, from 0 to 1."),
	}
}

// record counts a version.
func (m *chainMetrics) record(r event.Retrained, now time.Time) {
	set := func(g *prometheus.GaugeVec, value float64) { g.WithLabelValues().Set(value) }
	percent := func(g *prometheus.GaugeVec, value *float64) {
		if value != nil {
			set(g, *value/100)
		}
	}
	m.versions.WithLabelValues(r.Kind).Inc()
	m.rows.Add(float64(r.Rows))
	m.forgotten.Add(float64(r.Forgotten))
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
	set(m.window, float64(r.WindowRows))
	set(m.seconds, r.Seconds)
	percent(m.prequentialError, r.PrequentialError)
	percent(m.holdoutErrorRatio, r.HoldoutError)
	if r.PrequentialLoss != nil {
		set(m.prequentialLoss, *r.PrequentialLoss)
	}
}
