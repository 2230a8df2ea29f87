package telemetry

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// metrics is the recorder that counts events for Prometheus. It also knows what keeps the process from its work. Units are Prometheus'
// own: seconds, and ratios from 0 to 1. Each role has the metrics that it can have. A metric of a run has no value before the first run.
type metrics struct {
	registry *prometheus.Registry
	mutex    sync.Mutex
	now      func() time.Time
	waiting  map[string]bool   // the operations that wait for brokers
	aside    *event.StoodAside // that lasts; nil: this process does not stand aside
	running  string            // the run that is under way, if this process takes part in it
	since    time.Time         // when this process took the last step of it
	last     event.Progressed  // the last one of the current visit

	// Of all roles.
	waits     prometheus.Gauge
	rewritten *prometheus.CounterVec
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
	// Of a process that ingests a topic; nil in others.
	ingested *ingestMetrics
	// Of a process that predicts for a topic; nil in others.
	scores *scoreMetrics
}

// newMetrics returns the recorder of a role of a pipeline, with a registry of its own in which its metrics are registered. They have the
// label pipeline.
func newMetrics(pipeline, role string, now func() time.Time) *metrics {
	registry, register := NewRegistry(pipeline, role)
	m := &metrics{registry: registry, now: now, waiting: map[string]bool{}}
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
	m.waits = gauge("waiting", "Operations being retried after broker errors.")
	m.rewritten = rewritten()
	register.MustRegister(m.rewritten)
	switch role {
	case protocol.RoleScore:
		m.scores = newScoreMetrics(counter, gauges)
		m.ingested = newIngestMetrics(counter, counters, gauges)
		m.quarantined = counter("quarantined_total", "Messages that this process could not ingest.")
		return m
	case protocol.RoleIngest:
		m.ingested = newIngestMetrics(counter, counters, gauges)
		m.quarantined = counter("quarantined_total", "Messages that this process could not ingest.")
		return m
	}
	m.standing = gauge("standing_aside", "1 while this process does not take part in a run whose plan has a different arithmetic.")
	m.runs = counters("runs_total", "Ended runs, by final state.", "state", schemas.Done, schemas.Failed, schemas.Cancelled)
	m.run = gauges("run_info", "1 for the current run.", "run")
	m.stage = gauges("stage", "Current stage of the current run, from 0; -1 during the survey.")
	m.visit = gauges("visit", "Current visit of the stage, from 0.")
	m.stepped = gauges("progress_timestamp_seconds", "Unix time of the last step of this process in the current run.")
	const phases = "Seconds spent in each phase of runs."
	switch role {
	case protocol.RoleWork:
		m.rows = counter("rows_total", "Rows processed by visits.")
		m.visits = counter("visits_total", "Visits to partitions with published statistics.")
		m.quarantined = counter("quarantined_total", "Messages that the survey could not use. A repeated survey counts them again.")
		m.partitions = gauge("partitions", "Partitions of the examples topic owned by this worker.")
		m.left = gauge("lag_rows", "Rows of the current visit not yet processed by this worker.")
		m.seconds = counters("seconds_total", phases, "phase", phaseSurvey, phaseVisit, phaseResiduals)
	case protocol.RoleSolve:
		m.active = gauge("active", "1 if this solver is active, 0 if it stands by.")
		m.pass = gauges("pass", "Completed passes of the current stage.")
		m.objective = gauges("objective", "Objective of the stage at its last pass.")
		m.err = gauges("error_ratio", "Error rate at the last pass, from 0 to 1, by split.", "split")
		m.loss = gauges("loss", "Mean loss at the last pass, by split.", "split")
		m.seconds = counters("seconds_total", phases, "phase", phaseGather, phaseSolve)
	case protocol.RoleRun:
		m.quarantined = counter("quarantined_total", "Messages that this process could not ingest, or that its surveys could not use.")
		m.ingested = newIngestMetrics(counter, counters, gauges)
		m.chain = newChainMetrics(counter, gauges, counters)
	}
	return m
}

// rewritten returns the metric of writes that may be on a topic twice, by topic.
func rewritten() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "stagewise", Name: "repeated_writes_total",
		Help: "Writes to a topic that were retried after an ambiguous error, so that the topic may have them twice."}, []string{"topic"})
}

// NewRegistry returns a registry with what all processes say of themselves, and a registerer for the metrics of a pipeline.
func NewRegistry(pipeline, role string) (*prometheus.Registry, prometheus.Registerer) {
	registry := prometheus.NewRegistry()
	register := prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": pipeline}, registry)
	version, revision := Build()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "stagewise", Name: "build_info", Help: "1, labelled with the build of the program and the role of the process.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version(), "role": role},
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
	if e, ok := e.(event.Rewritten); ok {
		m.rewritten.WithLabelValues(e.Topic).Inc()
	}
	if m.scores != nil {
		m.scores.record(e)
	}
	if m.ingested != nil {
		m.ingested.record(e)
	}
	if m.runs == nil { // it takes part in no run
		if _, bad := e.(event.Quarantined); bad {
			m.quarantined.Inc()
		}
		return
	}
	switch e := e.(type) {
	case event.Began:
		m.clear(m.run, m.stage, m.visit, m.stepped, m.pass, m.objective, m.err, m.loss)
		m.run.WithLabelValues(e.Run).Set(1)
		m.at(wire.Survey, 0)
	case event.Ended:
		m.runs.WithLabelValues(e.State).Inc()
		m.clear(m.run, m.stage, m.visit, m.stepped)
		m.running = ""
	case event.Progressed, event.Visited, event.Sealed, event.Solved, event.Passed:
		m.step()
	case event.StoodAside:
		m.standAside(e)
	case event.StoodBy: // the active process exports what is known of the chain
		if e.Role == protocol.RoleRun {
			m.clear(m.run, m.stage, m.visit, m.stepped)
			m.clear(m.chain.gauges...)
			m.chain.left, m.running = event.Behind{}, ""
		}
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
		if e.Stage == wire.Survey {
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
		m.solveOnlyIf(len(e.Partitions) > 0)
	case event.Solving:
		m.active.Set(0)
		m.solveOnlyIf(e.Active)
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

// solveOnlyIf makes the metrics of a run have no value while another solver is active.
func (m *metrics) solveOnlyIf(active bool) {
	if !active {
		m.clear(m.stage, m.visit, m.stepped, m.pass, m.objective, m.err, m.loss)
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
		m.chain.behind(e, m.ingested.lag)
	case event.SourceLag:
		m.chain.sourceBehind(e.Messages)
	case event.StoodBy:
		if e.Role == protocol.RoleIngest {
			m.chain.messagesBehind.DeleteLabelValues("source")
		}
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
		m.waiting[e.What] = true
	}
	m.waits.Set(float64(len(m.waiting)))
}

// patience is after how long without a step of its run a process is not ready: when a role that waits repeats what it has said for the
// longest time.
const patience = protocol.MaxPatience

// trouble returns what keeps this process from its work, or nothing.
func (m *metrics) trouble() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.waiting) > 0 { // why is in the log: brokers' errors are not for everybody who can reach the port
		return "waiting for brokers: " + strings.Join(slices.Sorted(maps.Keys(m.waiting)), ", ")
	}
	if m.scores != nil && m.scores.without != "" {
		return "messages wait for a version: " + m.scores.without
	}
	if m.aside != nil {
		return fmt.Sprintf("standing aside for run %s: %s", m.aside.Run, m.aside.Why)
	}
	if idle := m.now().Sub(m.since); m.running != "" && idle >= patience {
		return fmt.Sprintf("no progress: run %s waits for other processes, this one has been idle for %v", m.running, idle.Round(time.Second))
	}
	return ""
}
