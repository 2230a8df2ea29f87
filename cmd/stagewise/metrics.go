package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// metrics is the recorder that counts events for Prometheus. It also knows whether the process waits for brokers.
type metrics struct {
	registry *prometheus.Registry
	mutex    sync.Mutex
	waiting  map[string]string // the operations that wait for brokers, and their errors
	last     event.Progressed  // the last one of the current visit

	rows, visits, quarantined            prometheus.Counter
	seconds, runs                        *prometheus.CounterVec
	partitions, stage, visit, pass, left prometheus.Gauge
	waits, objective                     prometheus.Gauge
	err, loss                            *prometheus.GaugeVec
}

// newMetrics returns a recorder with a registry of its own, in which all metrics are registered.
func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), waiting: map[string]string{}}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "stagewise", Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "stagewise", Name: name, Help: help})
		m.registry.MustRegister(g)
		return g
	}
	m.rows = counter("rows_total", "Rows that visits have processed.")
	m.visits = counter("visits_total", "Visits to partitions whose statistics have been published.")
	m.quarantined = counter("quarantined_total", "Messages that the survey could not use. A survey that is repeated counts them again.")
	m.partitions = gauge("partitions", "Partitions of the examples topic that this worker owns.")
	m.stage = gauge("stage", "Current stage of the run, from 0; -1 during the survey.")
	m.visit = gauge("visit", "Current visit of the stage, from 0.")
	m.pass = gauge("pass", "Passes of the stage that the solver has completed.")
	m.left = gauge("lag_rows", "Rows of the current visit that this worker has not processed yet.")
	m.waits = gauge("waiting", "Operations that are being retried because brokers fail.")
	m.objective = gauge("objective", "The objective of the stage at its last pass, which the stage minimises.")
	m.seconds = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "stagewise", Name: "seconds_total", Help: "Seconds spent in each phase: survey, visit, residuals, gather, solve.",
	}, []string{"phase"})
	m.runs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "stagewise", Name: "runs_total", Help: "Runs that have ended, by their final state.",
	}, []string{"state"})
	m.err = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "stagewise", Name: "error_percent", Help: "Error of the last pass in percent, by split.",
	}, []string{"split"})
	m.loss = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "stagewise", Name: "loss", Help: "Mean loss of the last pass, by split.",
	}, []string{"split"})
	m.registry.MustRegister(m.seconds, m.runs, m.err, m.loss,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) Record(e event.Event) {
	switch e := e.(type) {
	case event.Quarantined:
		m.quarantined.Inc()
	case event.Owned:
		m.partitions.Set(float64(len(e.Partitions)))
	case event.Progressed:
		m.at(e.Stage, e.Visit)
		if e.Stage != m.last.Stage || e.Visit != m.last.Visit || e.Rows < m.last.Rows {
			m.last = event.Progressed{}
		}
		m.rows.Add(float64(e.Rows - m.last.Rows))
		m.last = e
		m.left.Set(max(0, float64(e.Of-e.Rows)))
	case event.Visited:
		phase := "visit"
		if e.Stage == schemas.Survey {
			phase = "survey"
		}
		m.seconds.WithLabelValues(phase).Add(e.Elapsed.Seconds())
		m.visits.Add(float64(len(e.Partitions)))
		m.left.Set(0)
	case event.Sealed:
		m.seconds.WithLabelValues("residuals").Add(e.Elapsed.Seconds())
		m.rows.Add(float64(e.Rows))
	case event.Solved:
		m.seconds.WithLabelValues("gather").Add(e.Waited.Seconds())
		m.seconds.WithLabelValues("solve").Add(e.Elapsed.Seconds())
		m.at(e.Stage, e.Visit)
	case event.Passed:
		m.at(e.Stage, e.Visit)
		m.pass.Set(float64(e.Pass))
		m.objective.Set(e.Objective)
		for split, s := range e.Metrics {
			m.err.WithLabelValues(split.String()).Set(s.Error)
			m.loss.WithLabelValues(split.String()).Set(s.Loss)
		}
	case event.Ended:
		m.runs.WithLabelValues(e.State).Inc()
		m.partitions.Set(0)
	case event.Waiting:
		m.waitFor(e)
	}
}

// at sets the current stage and visit.
func (m *metrics) at(stage, visit int) {
	m.stage.Set(float64(stage))
	m.visit.Set(float64(visit))
}

// waitFor notes that an operation waits for brokers, or no longer does.
func (m *metrics) waitFor(e event.Waiting) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if delete(m.waiting, e.What); !e.Over {
		m.waiting[e.What] = e.Err.Error()
	}
	m.waits.Set(float64(len(m.waiting)))
}

// handler returns the handler of /metrics, /live and /ready. A process that waits for brokers is alive but not ready.
func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		for what, why := range m.waiting {
			http.Error(w, "waiting: "+what+": "+why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

// listenOn listens on the address for metrics. If another process has taken the default address, it listens on a free port
// instead, so that two workers on one machine need no configuration. The error is a [schemas.Problem].
func listenOn(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && address == config.DefaultListen {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, schemas.Problem{Key: "metrics.listen", Value: address, Want: fmt.Sprintf("host:port on which this process can listen (%v)", err)}
	}
	return listener, nil
}

// serveMetrics serves until ctx ends or stop is called. stop returns when the server has stopped.
func serveMetrics(ctx context.Context, listener net.Listener, m *metrics) (stop func()) {
	server := &http.Server{Handler: m.handler(), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // returns ErrServerClosed after Close
	}()
	release := context.AfterFunc(ctx, func() { _ = server.Close() })
	return func() {
		release()
		_ = server.Close()
		<-ended
	}
}
