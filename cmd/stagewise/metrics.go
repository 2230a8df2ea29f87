package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// metrics is the recorder that counts events for Prometheus. It also knows what keeps the process from its work. Units are Prometheus'
// own: seconds, and ratios from 0 to 1. Each role has the metrics that it can have. A metric of a run has no value before the first run.
type metrics struct {
	registry *prometheus.Registry
	mutex    sync.Mutex
	now      func() time.Time
	waiting  map[string]string // the operations that wait for brokers, and their errors
	aside    *event.StoodAside // that lasts; nil: this process does not stand aside
	running  string            // the run that is under way, if this process takes part in it
	since    time.Time         // when this process took the last step of it
	last     event.Progressed  // the last one of the current visit

	// Of all roles.
	waits prometheus.Gauge
	// Of all that take part in runs; nil in others.
	standing                   prometheus.Gauge
	seconds, runs              *prometheus.CounterVec
	run, stage, visit, stepped *prometheus.GaugeVec
	// Of a worker; nil in a solver.
	rows, visits, quarantined prometheus.Counter
	partitions, left          prometheus.Gauge
	// Of a solver; nil in a worker.
	active                     prometheus.Gauge
	pass, objective, err, loss *prometheus.GaugeVec
	// Of a process that retrains; nil in others.
	chain *chainMetrics
	// Of a process that predicts for a topic; nil in others.
	scores *scoreMetrics
}

// The roles that have metrics.
const (
	roleWork  = "work"
	roleSolve = "solve"
	roleRun   = "run"
	roleScore = "score"
)

// newMetrics returns the recorder of a role of a pipeline, with a registry of its own in which its metrics are registered. They have the
// label pipeline.
func newMetrics(pipeline, role string, now func() time.Time) *metrics {
	registry, register := newRegistry(pipeline)
	m := &metrics{registry: registry, now: now, waiting: map[string]string{}}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "stagewise", Name: name, Help: help})
		register.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "stagewise", Name: name, Help: help})
		register.MustRegister(g)
		return g
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "stagewise", Name: name, Help: help}, []string{label})
		for _, v := range values { // a rate needs the 0 before the first 1
			c.WithLabelValues(v)
		}
		register.MustRegister(c)
		return c
	}
	// A vector, also one without labels, has no value until it is set.
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "stagewise", Name: name, Help: help}, labels)
		register.MustRegister(g)
		return g
	}
	m.waits = gauge("waiting", "Operations that are being retried because brokers fail.")
	if role == roleScore {
		m.scores = newScoreMetrics(counter, gauges)
		return m
	}
	m.standing = gauge("standing_aside", "1 while a run goes first that this process can't work on, as its plan has another arithmetic.")
	m.runs = counters("runs_total", "Runs that have ended, by their final state.", "state", schemas.Done, schemas.Failed, schemas.Cancelled)
	m.run = gauges("run_info", "1 for the run that is under way.", "run")
	m.stage = gauges("stage", "Current stage of the run that is under way, from 0; -1 during the survey.")
	m.visit = gauges("visit", "Current visit of the stage, from 0.")
	m.stepped = gauges("progress_timestamp_seconds", "When this process took its last step of the run that is under way, in Unix time.")
	const phases = "Seconds spent in each phase of runs."
	switch role {
	case roleWork:
		m.rows = counter("rows_total", "Rows that visits have processed.")
		m.visits = counter("visits_total", "Visits to partitions whose statistics have been published.")
		m.quarantined = counter("quarantined_total", "Messages that the survey could not use. A survey that is repeated counts them again.")
		m.partitions = gauge("partitions", "Partitions of the examples topic that this worker owns.")
		m.left = gauge("lag_rows", "Rows of the current visit that this worker has not processed yet.")
		m.seconds = counters("seconds_total", phases, "phase", phaseSurvey, phaseVisit, phaseResiduals)
	case roleSolve:
		m.active = gauge("active", "1 if this solver solves the runs, 0 if it stands by.")
		m.pass = gauges("pass", "Passes of the stage that the solver has completed.")
		m.objective = gauges("objective", "What the stage minimises, at its last pass.")
		m.err = gauges("error_ratio", "Rate of wrong predictions at the last pass, from 0 to 1, by split.", "split")
		m.loss = gauges("loss", "Mean loss of the last pass, by split.", "split")
		m.seconds = counters("seconds_total", phases, "phase", phaseGather, phaseSolve)
	case roleRun:
		m.quarantined = counter("quarantined_total", "Messages that surveys of this process could not use.")
		m.chain = newChainMetrics(counter, gauges, counters)
	}
	return m
}

// newRegistry returns a registry with what all processes say of themselves, and a registerer for the metrics of a pipeline.
func newRegistry(pipeline string) (*prometheus.Registry, prometheus.Registerer) {
	registry := prometheus.NewRegistry()
	register := prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": pipeline}, registry)
	version, revision := build()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "stagewise", Name: "build_info", Help: "1, for the build of this program.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()},
	})
	info.Set(1)
	register.MustRegister(info)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry, register
}

// The phases of a run.
const (
	phaseSurvey    = "survey"
	phaseVisit     = "visit"
	phaseResiduals = "residuals"
	phaseGather    = "gather"
	phaseSolve     = "solve"
)

// Record counts an event that all roles may have, and what only the metrics of this role show.
func (m *metrics) Record(e event.Event) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if e, ok := e.(event.Waiting); ok {
		m.waitFor(e)
	}
	if m.scores != nil {
		m.scores.record(e)
		return
	}
	switch e := e.(type) {
	case event.Began:
		m.clear(m.run, m.stage, m.visit, m.stepped, m.pass, m.objective, m.err, m.loss)
		m.run.WithLabelValues(e.Run).Set(1)
		m.at(schemas.Survey, 0)
	case event.Ended:
		m.runs.WithLabelValues(e.State).Inc()
		m.clear(m.run, m.stage, m.visit, m.stepped)
		m.running = ""
	case event.Progressed, event.Visited, event.Sealed, event.Solved, event.Passed:
		m.step()
	case event.StoodAside:
		m.standAside(e)
	}
	switch {
	case m.partitions != nil:
		m.recordWork(e)
	case m.active != nil:
		m.recordSolve(e)
	default:
		m.recordChain(e)
	}
}

// step notes that this process goes on with its run.
func (m *metrics) step() {
	m.since = m.now()
	m.stepped.WithLabelValues().Set(float64(m.since.UnixMilli()) / 1000)
}

// standAside notes that this process stands aside for a run, or no longer does.
func (m *metrics) standAside(e event.StoodAside) {
	if m.standing.Set(0); e.Over {
		m.aside = nil
		return
	}
	m.standing.Set(1)
	m.aside = &e
}

// clear makes metrics have no value. One may be nil.
func (m *metrics) clear(all ...*prometheus.GaugeVec) {
	for _, g := range all {
		if g != nil {
			g.Reset()
		}
	}
}

// recordWork counts what a worker does.
func (m *metrics) recordWork(e event.Event) {
	switch e := e.(type) {
	case event.Quarantined:
		m.quarantined.Inc()
	case event.Owned:
		if m.partitions.Set(float64(len(e.Partitions))); len(e.Partitions) == 0 {
			m.running = ""
		}
	case event.Progressed:
		m.at(e.Stage, e.Visit)
		if e.Stage != m.last.Stage || e.Visit != m.last.Visit || e.Rows < m.last.Rows {
			m.last = event.Progressed{}
		}
		m.rows.Add(float64(e.Rows - m.last.Rows))
		m.last = e
		m.left.Set(max(0, float64(e.Of-e.Rows)))
	case event.Visited:
		m.running = e.Run // a worker without partitions of the run waits for nothing
		phase := phaseVisit
		if e.Stage == schemas.Survey {
			phase = phaseSurvey
		}
		m.seconds.WithLabelValues(phase).Add(e.Elapsed.Seconds())
		m.visits.Add(float64(len(e.Partitions)))
		m.left.Set(0)
	case event.Sealed:
		m.seconds.WithLabelValues(phaseResiduals).Add(e.Elapsed.Seconds())
		m.rows.Add(float64(e.Rows))
	}
}

// recordSolve counts what a solver does.
func (m *metrics) recordSolve(e event.Event) {
	switch e := e.(type) {
	case event.Owned:
		m.active.Set(float64(len(e.Partitions))) // between runs; the plans topic has one
	case event.Solving:
		m.active.Set(0)
		if m.running = ""; e.Active {
			m.active.Set(1)
			m.running = e.Run
			m.step()
		}
	case event.Solved:
		m.seconds.WithLabelValues(phaseGather).Add(e.Waited.Seconds())
		m.seconds.WithLabelValues(phaseSolve).Add(e.Elapsed.Seconds())
		m.at(e.Stage, e.Visit)
	case event.Passed:
		m.at(e.Stage, e.Visit)
		m.pass.WithLabelValues().Set(float64(e.Pass))
		m.objective.WithLabelValues().Set(e.Objective)
		for split, s := range e.Metrics {
			m.err.WithLabelValues(split.String()).Set(s.Error / 100)
			m.loss.WithLabelValues(split.String()).Set(s.Loss)
		}
	}
}

// recordChain counts what a process does that retrains.
func (m *metrics) recordChain(e event.Event) {
	switch e := e.(type) {
	case event.Progressed:
		m.at(e.Stage, e.Visit)
	case event.Solved:
		m.at(e.Stage, e.Visit)
	case event.Retrained:
		m.chain.record(e, m.now())
	case event.Behind:
		m.chain.behind(e)
	case event.Replaced:
		m.chain.replaced.Inc()
	case event.Incomplete:
		m.chain.incomplete.Inc()
	case event.Quarantined:
		m.quarantined.Inc()
	}
}

// at sets the current stage and visit.
func (m *metrics) at(stage, visit int) {
	m.stage.WithLabelValues().Set(float64(stage))
	m.visit.WithLabelValues().Set(float64(visit))
}

// waitFor notes that an operation waits for brokers, or no longer does.
func (m *metrics) waitFor(e event.Waiting) {
	if delete(m.waiting, e.What); !e.Over {
		m.waiting[e.What] = e.Err.Error()
	}
	m.waits.Set(float64(len(m.waiting)))
}

// patience is after how long without a step of its run a process is not ready: when a role that waits repeats what it has said for the
// longest time.
const patience = run.MaxPatience

// trouble returns what keeps this process from its work, or nothing.
func (m *metrics) trouble() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for what, why := range m.waiting {
		return "waiting: " + what + ": " + why
	}
	if m.aside != nil {
		return fmt.Sprintf("standing aside: run %s goes first, and %s", m.aside.Run, m.aside.Why)
	}
	if idle := m.now().Sub(m.since); m.running != "" && idle >= patience {
		return fmt.Sprintf("no progress: run %s waits for others, and this process has done nothing for %v", m.running, idle.Round(time.Second))
	}
	return ""
}

// handler returns the handler of /metrics, /live and /ready. A process that can't do its work is alive but not ready.
func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if trouble := m.trouble(); trouble != "" {
			http.Error(w, trouble, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

// listenOn listens on the address for metrics. If another process has taken the default address, it listens on the next free one of
// [config.ListenPorts] ports, so that several processes on one machine need no configuration and Prometheus knows where to look. taken
// says that it does, or, with a nil listener, that none of them is free. An address that was configured is used, or the error is a
// [schemas.Problem].
func listenOn(address string) (listener net.Listener, taken string, err error) {
	listener, err = net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && address == config.DefaultListen {
		return listenBehind(address)
	}
	if err != nil {
		return nil, "", schemas.Problem{Key: "metrics.listen", Value: address, Want: fmt.Sprintf("host:port on which this process can listen (%v)", err)}
	}
	return listener, "", nil
}

// listenBehind listens on a port behind one that is taken.
func listenBehind(address string) (listener net.Listener, taken string, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, "", err
	}
	last := port + config.ListenPorts - 1
	for next := port + 1; next <= last; next++ {
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(next))); err == nil {
			return listener, fmt.Sprintf("another process has %s: metrics are at %s", address, listener.Addr()), nil
		}
	}
	return nil, fmt.Sprintf("no metrics are served: the ports %d to %d of %s are taken; set metrics.listen", port, last, host), nil
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
