package telemetry

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
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

// namespace begins the names of all metrics.
const namespace = "stagewise"

// metrics is the recorder that counts events for Prometheus. It also has the reason why the process is not ready.
type metrics struct {
	registered
	registry *prometheus.Registry
	role     string
	mutex    sync.Mutex
	now      func() time.Time
	waiting  map[string]bool   // the operations that wait for brokers
	aside    *event.StoodAside // the current one; nil: this process does not stand aside
	running  string            // the current run, if this process takes part in it
	since    time.Time         // when this process took the last step of it
	last     event.Progressed  // the last one of the current visit
	written  map[string]int64  // by source, the rows of the last event
	lag      int64             // messages of the source topic that wait
	left     event.Behind      // of the examples topic, when the last cut was made
	without  string            // why messages to predict wait for a version; "": there is one
}

// newMetrics returns the recorder of a role of a pipeline, with a registry of its own in which its metrics are registered. They have the
// label pipeline.
func newMetrics(pipeline, role string, now func() time.Time) *metrics {
	registry, to := newRegistry(pipeline, role)
	m := &metrics{registered: register(role, to), registry: registry, role: role, now: now, waiting: map[string]bool{},
		written: map[string]int64{}}
	if role == protocol.RoleScore {
		m.without = "no version has been read yet"
	}
	return m
}

// newRegistry returns a registry with the metrics of all processes, and a registerer for the metrics of a pipeline.
func newRegistry(pipeline, role string) (*prometheus.Registry, prometheus.Registerer) {
	registry := prometheus.NewRegistry()
	register := prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": pipeline}, registry)
	version, revision := Build()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, labelled with the build of the program and the role of the process.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version(), "role": role},
	})
	info.Set(1)
	register.MustRegister(info)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry, register
}

// Record counts an event.
func (m *metrics) Record(e event.Event) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	switch e := e.(type) {
	case event.Waiting:
		if delete(m.waiting, e.What); !e.Over {
			m.waiting[e.What] = true
		}
		m.set("waiting", float64(len(m.waiting)))
	case event.Rewritten:
		m.add("repeated_writes_total", 1, e.Topic)
	case event.Quarantined:
		m.add("quarantined_total", 1)
	case event.StoodAside:
		m.set("standing_aside", 0)
		if m.aside = nil; !e.Over {
			m.set("standing_aside", 1)
			m.aside = &e
		}
	case event.StoodBy:
		m.standBy(e.Role)
	case event.Began:
		m.clear(ofRun, ofStep, ofPass)
		m.set("run_info", 1, e.Run)
		m.at(wire.Survey, 0)
	case event.Ended:
		m.add("runs_total", 1, e.State)
		m.clear(ofRun, ofStep)
		m.running = ""
	case event.Owned:
		m.own(len(e.Partitions))
	case event.Solving:
		m.solves(e)
	case event.Progressed:
		m.step()
		m.at(e.Stage, e.Visit)
		if e.Stage != m.last.Stage || e.Visit != m.last.Visit || e.Rows < m.last.Rows {
			m.last = event.Progressed{}
		}
		m.add("rows_total", float64(e.Rows-m.last.Rows))
		m.last = e
		m.set("lag_rows", max(0, float64(e.Of-e.Rows)))
	case event.Visited:
		if m.step(); m.role == protocol.RoleWork {
			m.running = e.Run // a worker without partitions of the run waits for nothing
		}
		phase := phaseVisit
		if e.Stage == wire.Survey {
			phase = phaseSurvey
		}
		m.add("seconds_total", e.Elapsed.Seconds(), phase)
		m.add("visits_total", float64(len(e.Partitions)))
		m.set("lag_rows", 0)
	case event.Sealed:
		m.step()
		m.add("seconds_total", e.Elapsed.Seconds(), phaseResiduals)
		m.add("rows_total", float64(e.Rows))
	case event.Solved:
		m.step()
		m.add("seconds_total", e.Waited.Seconds(), phaseGather)
		m.add("seconds_total", e.Elapsed.Seconds(), phaseSolve)
		m.at(e.Stage, e.Visit)
	case event.Passed:
		m.step()
		m.at(e.Stage, e.Visit)
		m.set("pass", float64(e.Pass))
		m.set("objective", e.Objective)
		for split, s := range e.Metrics {
			m.set("error_ratio", s.Error/100, split.String())
			m.set("loss", s.Loss, split.String())
		}
	case event.Ingested:
		m.ingest(e)
	case event.Lost:
		m.add("lost_messages_total", float64(e.To-e.From))
	case event.ColumnLost:
		m.add("lost_column_rows_total", float64(e.Rows), e.Column)
	case event.Joined:
		c := e.Counts
		m.set("joined_rows", float64(c.Rows-c.Absent), "matched")
		m.set("joined_rows", float64(c.Absent), "absent")
		m.set("joined_outcomes", float64(c.Matched), "matched")
		m.set("joined_outcomes", float64(c.Alone()), "without_row")
		m.set("joined_outcomes", float64(c.Late), "late")
		m.set("outcome_disorder_seconds", float64(c.Disorder)/1000)
	case event.SourceLag: // its messages are not added to those of the examples, which are batches of rows
		m.lag = e.Messages
		m.set("source_lag_messages", float64(e.Messages))
		m.set("behind_messages", float64(e.Messages), "source")
		m.set("behind_rows", float64(m.left.Rows+m.lag))
	case event.Behind:
		m.left = e
		m.set("behind_messages", float64(e.Messages), "examples")
		m.set("behind_rows", float64(e.Rows+m.lag))
	case event.Answers:
		if m.without = ""; e.Version == 0 {
			m.without = e.Why.Error()
		}
	case event.Scored:
		m.add("scored_messages_total", float64(e.Messages))
		m.add("scored_rows_total", float64(e.Rows))
		m.add("scored_bad_messages_total", float64(e.Bad))
		m.set("scoring_version", float64(e.Version))
	case event.ScoringLag:
		m.remove("scoring_lag_messages") // another process may own a partition now
		for partition, offsets := range e.Offsets {
			m.set("scoring_lag_messages", float64(offsets), strconv.Itoa(partition))
		}
	case event.Retrained:
		m.retrained(e)
	case event.Replaced:
		m.add("replaced_partitions_total", 1)
	case event.Incomplete:
		m.add("incomplete_versions_total", 1)
	}
}

// standBy removes what the active process of a role exports.
func (m *metrics) standBy(role string) {
	switch role {
	case protocol.RoleRun:
		m.clear(ofRun, ofStep, ofChain)
		m.left, m.running = event.Behind{}, ""
	case protocol.RoleIngest:
		m.clear(ofTopic)
		m.remove("behind_messages", "source")
		m.lag = 0
	}
}

// own records the number of owned partitions: of the examples for a worker, of the plans for a solver.
func (m *metrics) own(partitions int) {
	m.set("partitions", float64(partitions))
	m.set("active", float64(partitions))
	if partitions == 0 {
		m.running = ""
		if m.role == protocol.RoleSolve {
			m.clear(ofStep, ofPass)
		}
	}
}

// solves records whether this process is the solver of a run.
func (m *metrics) solves(e event.Solving) {
	if m.role != protocol.RoleSolve {
		return
	}
	m.set("active", 0)
	if m.running = ""; !e.Active {
		m.clear(ofStep, ofPass)
		return
	}
	m.set("active", 1)
	m.running = e.Run
	m.step()
}

// ingest counts the rows of a source that were written since the last event.
func (m *metrics) ingest(e event.Ingested) {
	if e.Known {
		return
	}
	source := strings.Join(e.Files, "\n")
	before := m.written[source]
	if e.Rows < before { // the source is read from the position of other processes
		before = 0
	}
	m.add("ingested_rows_total", float64(e.Rows-before))
	m.written[source] = e.Rows
}

// retrained counts a version.
func (m *metrics) retrained(r event.Retrained) {
	m.add("versions_total", 1, r.Kind)
	m.add("learnt_rows_total", float64(r.Rows))
	m.add("forgotten_rows_total", float64(r.Forgotten))
	m.add("unknown_class_rows_total", float64(r.UnknownRows))
	m.add("lost_messages_total", float64(r.Lost))
	m.add("gone_rows_total", float64(r.Gone))
	if r.MostlyBad != nil {
		m.add("bad_messages_alarms_total", 1)
	}
	if r.Drift {
		m.add("drift_alarms_total", 1)
	}
	m.set("version", float64(r.Version))
	if r.Offered {
		m.set("offered_version", float64(r.Version))
		m.set("offered_timestamp_seconds", float64(m.now().UnixMilli())/1000)
	} else {
		m.add("withheld_versions_total", 1)
	}
	if r.Until > 0 {
		m.set("learnt_timestamp_seconds", float64(r.Until)/1000)
	}
	m.set("window_rows", float64(r.WindowRows))
	m.set("version_seconds", r.Seconds)
	for _, measured := range []struct {
		name  string
		value *float64
		unit  float64
	}{
		{"prequential_error_ratio", r.PrequentialError, 100}, {"prequential_loss", r.PrequentialLoss, 1},
		{"prequential_log_loss", r.PrequentialLogLoss, 1}, {"prequential_brier_score", r.PrequentialBrier, 1},
		{"prequential_calibration_error_ratio", r.PrequentialECE, 1}, {"holdout_error_ratio", r.HoldoutError, 100},
	} {
		if measured.value != nil {
			m.set(measured.name, *measured.value/measured.unit)
		}
	}
	if r.Kind == schemas.RunUpdate {
		m.remove("served_error_ratio") // so that there are no more versions than the newest update has
		m.remove("served_rows")
		for _, s := range r.Served {
			m.set("served_error_ratio", s.Error/100, strconv.Itoa(s.Version))
			m.set("served_rows", float64(s.Rows), strconv.Itoa(s.Version))
		}
	}
}

// step records progress of this process in its run.
func (m *metrics) step() {
	m.since = m.now()
	m.set("progress_timestamp_seconds", float64(m.since.UnixMilli())/1000)
}

// at sets the current stage and visit.
func (m *metrics) at(stage, visit int) {
	m.set("stage", float64(stage))
	m.set("visit", float64(visit))
}

// patience is the time without a step of its run after which a process is not ready: the longest interval at which a
// waiting role repeats its message.
const patience = protocol.MaxPatience

// trouble returns why this process is not ready, or "".
func (m *metrics) trouble() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.waiting) > 0 { // the reasons are only in the log, as anyone who can reach the port can read this
		return "waiting for brokers: " + strings.Join(slices.Sorted(maps.Keys(m.waiting)), ", ")
	}
	if m.without != "" {
		return "messages wait for a version: " + m.without
	}
	if m.aside != nil {
		return fmt.Sprintf("standing aside for run %s: %s", m.aside.Run, m.aside.Why)
	}
	if idle := m.now().Sub(m.since); m.running != "" && idle >= patience {
		return fmt.Sprintf("no progress: run %s waits for other processes, this one has been idle for %v", m.running, idle.Round(time.Second))
	}
	return ""
}

// ForServer returns a registry for the metrics of a server, and a recorder that counts events in it and passes them on.
func ForServer(pipeline string, to event.Recorder) (*prometheus.Registry, event.Recorder) {
	m := newMetrics(pipeline, protocol.RoleServe, time.Now)
	return m.registry, tee(event.Serialised(m.Record), to)
}

// metric is a row of the table of metrics. A name that ends with _total is a counter, any other a gauge.
type metric struct {
	name, help string
	roles      []string // processes that have it; nil: all
	label      string   // besides the pipeline; "": none
	values     []string // all values of the label; each begins with 0
	until      scope    // when its values are removed
}

// scope is the event that removes values of a gauge.
type scope int

const (
	always  scope = iota // none; a gauge without a label begins with 0, any other has no value until it is set
	unset                // none; a gauge has no value until it is set
	ofRun                // the run ends
	ofStep               // the run ends, or another solver is active
	ofPass               // the next run begins, or another solver is active
	ofChain              // another process retrains
	ofTopic              // another process ingests
)

// The phases of a run.
const (
	phaseSurvey    = "survey"
	phaseVisit     = "visit"
	phaseResiduals = "residuals"
	phaseGather    = "gather"
	phaseSolve     = "solve"
)

// table returns all metrics of the roles. Units are Prometheus' own: seconds, and ratios from 0 to 1.
func table() []metric {
	work, solve, run := []string{protocol.RoleWork}, []string{protocol.RoleSolve}, []string{protocol.RoleRun}
	score := []string{protocol.RoleScore}
	runs, visits := slices.Concat(work, solve, run), slices.Concat(work, solve) // a solver visits the rows of small updates
	ingests := slices.Concat(score, run, []string{protocol.RoleIngest})
	return []metric{
		{name: "waiting", help: "Operations being retried after broker errors."},
		{name: "repeated_writes_total", help: "Writes to a topic that were retried after an ambiguous error, so that the topic may have them " +
			"twice.", label: "topic"},

		{name: "standing_aside", help: "1 while this process does not take part in a run whose plan has a different arithmetic.", roles: runs},
		{name: "runs_total", help: "Ended runs, by final state.", roles: runs, label: "state",
			values: []string{schemas.Done, schemas.Failed, schemas.Cancelled}},
		{name: "run_info", help: "1 for the current run.", roles: runs, label: "run", until: ofRun},
		{name: "stage", help: "Current stage of the current run, from 0; -1 during the survey.", roles: runs, until: ofStep},
		{name: "visit", help: "Current visit of the stage, from 0.", roles: runs, until: ofStep},
		{name: "progress_timestamp_seconds", help: "Unix time of the last step of this process in the current run.", roles: runs, until: ofStep},

		{name: "rows_total", help: "Rows processed by visits.", roles: visits},
		{name: "visits_total", help: "Visits to partitions.", roles: visits},
		{name: "partitions", help: "Partitions of the examples topic owned by this worker.", roles: work},
		{name: "lag_rows", help: "Rows of the current visit not yet processed by this worker.", roles: work},
		{name: "seconds_total", help: "Seconds spent in each phase of runs.", roles: work, label: "phase",
			values: []string{phaseSurvey, phaseVisit, phaseResiduals}},

		{name: "active", help: "1 if this solver is active, 0 if it stands by.", roles: solve},
		{name: "pass", help: "Completed passes of the current stage.", roles: solve, until: ofPass},
		{name: "objective", help: "Objective of the stage at its last pass.", roles: solve, until: ofPass},
		{name: "error_ratio", help: "Error rate at the last pass, from 0 to 1, by split.", roles: solve, label: "split", until: ofPass},
		{name: "loss", help: "Mean loss at the last pass, by split.", roles: solve, label: "split", until: ofPass},
		{name: "seconds_total", help: "Seconds spent in each phase of runs.", roles: solve, label: "phase",
			values: []string{phaseSurvey, phaseVisit, phaseGather, phaseSolve}},

		{name: "ingested_rows_total", help: "Rows written to the examples topic by this process.", roles: ingests},
		{name: "lost_column_rows_total", help: "Rows, ingested by this process, that lack a column that earlier rows had, by column. They " +
			"are quarantined, unless the column is optional.", roles: ingests, label: "column"},
		{name: "quarantined_total", help: "Messages that this process could not ingest, or that its surveys could not use. A repeated survey " +
			"counts them again.", roles: slices.Concat(visits, ingests)},
		{name: "source_lag_messages", help: "Messages of the source topic not yet ingested.", roles: ingests, until: ofTopic},
		{name: "joined_rows", help: "Messages of the source topic that were joined with an outcome, or have none.", roles: ingests,
			label: "state"},
		{name: "joined_outcomes", help: "Outcomes that have a row, have none, or came after their row was decided.", roles: ingests,
			label: "state"},
		{name: "outcome_disorder_seconds", help: "Maximum disorder of the outcomes that came after their row was decided.", roles: ingests,
			until: unset},

		{name: "scored_messages_total", help: "Messages with predictions written by this process.", roles: score},
		{name: "scored_rows_total", help: "Rows of these messages.", roles: score},
		{name: "scored_bad_messages_total", help: "Messages that can't be used: their predictions have the reason.", roles: score},
		{name: "scoring_version", help: "Number of the version that made the last predictions.", roles: score, until: unset},
		{name: "scoring_lag_messages", help: "Offsets after the last message with predictions, by partition of this process.", roles: score,
			label: "partition"},

		{name: "versions_total", help: "Versions made by this process, by kind.", roles: run, label: "kind",
			values: []string{schemas.RunFull, schemas.RunUpdate}},
		{name: "learnt_rows_total", help: "New training rows of these versions.", roles: run},
		{name: "forgotten_rows_total", help: "Forgotten rows that versions left out.", roles: run},
		{name: "unknown_class_rows_total", help: "New rows that versions left out because their label is not a class.", roles: run},
		{name: "bad_messages_alarms_total", help: "Versions with mostly unusable new messages.", roles: run},
		{name: "drift_alarms_total", help: "Versions with detected drift of the stream.", roles: run},
		{name: "withheld_versions_total", help: "Versions withheld from subscribers as worse than the offered version.", roles: run},
		{name: "lost_messages_total", help: "Messages deleted from the examples topic before a version learnt them, or from the source before " +
			"it was read, or missing in its archive.", roles: ingests},
		{name: "gone_rows_total", help: "Rows that left the window because they are no longer on the examples topic.", roles: run},
		{name: "replaced_partitions_total", help: "Partitions of the examples topic found truncated or recreated after versions had learnt " +
			"from them.", roles: run},
		{name: "incomplete_versions_total", help: "Versions skipped because a part of them was missing from the versions topic.", roles: run},
		{name: "version", help: "Number of the newest version.", roles: run, until: ofChain},
		{name: "offered_version", help: "Number of the newest offered version.", roles: run, until: ofChain},
		{name: "offered_timestamp_seconds", help: "Unix time when the newest offered version was made.", roles: run, until: ofChain},
		{name: "learnt_timestamp_seconds", help: "Unix time of the newest message learnt by a version.", roles: run, until: ofChain},
		{name: "window_rows", help: "Rows of the window, without forgotten ones.", roles: run, until: ofChain},
		{name: "version_seconds", help: "Seconds from the plan of the newest version to its end.", roles: run, until: ofChain},
		{name: "prequential_error_ratio", help: "Error rate of the newest update on new rows before they were learnt, from 0 to 1.", roles: run,
			until: ofChain},
		{name: "prequential_loss", help: "Mean loss of the newest update on new rows before they were learnt.", roles: run, until: ofChain},
		{name: "prequential_log_loss", help: "Log loss of the probabilities of these rows.", roles: run, until: ofChain},
		{name: "prequential_brier_score", help: "Brier score of these rows.", roles: run, until: ofChain},
		{name: "prequential_calibration_error_ratio", help: "Expected calibration error of these rows, from 0 to 1.", roles: run, until: ofChain},
		{name: "served_error_ratio", help: "Error rate of served predictions, on the new rows of the newest update that have one, from 0 to 1.",
			roles: run, label: "version", until: ofChain},
		{name: "served_rows", help: "New rows of the newest update for which a version answered.", roles: run, label: "version", until: ofChain},
		{name: "behind_messages", help: "Messages not learnt by any version: batches of rows of the topic examples at the last cut, and " +
			"messages of the topic source that are not ingested yet.", roles: run, label: "topic", until: ofChain},
		{name: "behind_rows", help: "Rows of these messages. Rows of unread messages are estimated; a message that is not ingested counts as " +
			"one row.", roles: run, until: ofChain},
		{name: "holdout_error_ratio", help: "Error rate on the holdout rows visited by the newest version, from 0 to 1.", roles: run,
			until: ofChain},
	}
}

// registered is the metrics of a process by name. Metrics that it does not have are ignored.
type registered map[string]vector

// vector is a row of the table, and its values: a gauge or a counter.
type vector struct {
	metric
	gauge   *prometheus.GaugeVec
	counter *prometheus.CounterVec
}

// register registers the metrics of a role.
func register(role string, to prometheus.Registerer) registered {
	r := registered{}
	for _, row := range table() {
		if row.roles != nil && !slices.Contains(row.roles, role) {
			continue
		}
		var labels []string
		begin := [][]string{{}} // the values of labels that begin with 0
		if row.label != "" {
			labels, begin = []string{row.label}, nil
			for _, value := range row.values {
				begin = append(begin, []string{value})
			}
		}
		v := vector{metric: row}
		if strings.HasSuffix(row.name, "_total") {
			v.counter = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: row.name, Help: row.help}, labels)
			to.MustRegister(v.counter)
		} else {
			v.gauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: row.name, Help: row.help}, labels)
			to.MustRegister(v.gauge)
		}
		r[row.name] = v
		for _, values := range begin {
			if r.add(row.name, 0, values...); row.until == always {
				r.set(row.name, 0, values...)
			}
		}
	}
	return r
}

// set sets a gauge.
func (r registered) set(name string, value float64, label ...string) {
	if g := r[name].gauge; g != nil {
		g.WithLabelValues(label...).Set(value)
	}
}

// add adds to a counter.
func (r registered) add(name string, value float64, label ...string) {
	if v := r[name]; v.counter != nil && (v.values == nil || slices.Contains(v.values, label[0])) {
		v.counter.WithLabelValues(label...).Add(value)
	}
}

// clear removes the values of gauges with the given scopes.
func (r registered) clear(scopes ...scope) {
	for name, v := range r {
		if slices.Contains(scopes, v.until) {
			r.remove(name)
		}
	}
}

// remove removes a value of a gauge with a label, or all of them.
func (r registered) remove(name string, label ...string) {
	switch g := r[name].gauge; {
	case g == nil:
	case len(label) == 0:
		g.Reset()
	default:
		g.DeleteLabelValues(label...)
	}
}
