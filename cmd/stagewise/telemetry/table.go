package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// metric is a row of the table of metrics. A name that ends with _total is a counter, any other a gauge.
type metric struct {
	name, help string
	roles      []string // processes that have it; nil: all
	label      string   // besides the pipeline; "": none
	values     []string // of the label: each begins with 0, and the metric has no other
	unset      bool     // a gauge without a label has no value until it is set
	until      scope    // when its values are removed
}

// scope is why values of a gauge are removed.
type scope int

const (
	always  scope = iota // they are not
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

const (
	repeatedWrites     = "repeated_writes_total"
	repeatedWritesHelp = "Writes to a topic that were retried after an ambiguous error, so that the topic may have them twice."
)

// table returns all metrics of the roles. Units are Prometheus' own: seconds, and ratios from 0 to 1.
func table() []metric {
	work, solve, run := []string{protocol.RoleWork}, []string{protocol.RoleSolve}, []string{protocol.RoleRun}
	score := []string{protocol.RoleScore}
	runs, visits := slices.Concat(work, solve, run), slices.Concat(work, solve) // a solver visits the rows of small updates
	ingests := slices.Concat(score, run, []string{protocol.RoleIngest})
	return []metric{
		{name: "waiting", help: "Operations being retried after broker errors."},
		{name: repeatedWrites, help: repeatedWritesHelp, label: "topic"},

		{name: "standing_aside", help: "1 while this process does not take part in a run whose plan has a different arithmetic.", roles: runs},
		{name: "runs_total", help: "Ended runs, by final state.", roles: runs, label: "state",
			values: []string{schemas.Done, schemas.Failed, schemas.Cancelled}},
		{name: "run_info", help: "1 for the current run.", roles: runs, label: "run", until: ofRun},
		{name: "stage", help: "Current stage of the current run, from 0; -1 during the survey.", roles: runs, unset: true, until: ofStep},
		{name: "visit", help: "Current visit of the stage, from 0.", roles: runs, unset: true, until: ofStep},
		{name: "progress_timestamp_seconds", help: "Unix time of the last step of this process in the current run.", roles: runs, unset: true,
			until: ofStep},

		{name: "rows_total", help: "Rows processed by visits.", roles: visits},
		{name: "visits_total", help: "Visits to partitions.", roles: visits},
		{name: "partitions", help: "Partitions of the examples topic owned by this worker.", roles: work},
		{name: "lag_rows", help: "Rows of the current visit not yet processed by this worker.", roles: work},
		{name: "seconds_total", help: "Seconds spent in each phase of runs.", roles: work, label: "phase",
			values: []string{phaseSurvey, phaseVisit, phaseResiduals}},

		{name: "active", help: "1 if this solver is active, 0 if it stands by.", roles: solve},
		{name: "pass", help: "Completed passes of the current stage.", roles: solve, unset: true, until: ofPass},
		{name: "objective", help: "Objective of the stage at its last pass.", roles: solve, unset: true, until: ofPass},
		{name: "error_ratio", help: "Error rate at the last pass, from 0 to 1, by split.", roles: solve, label: "split", until: ofPass},
		{name: "loss", help: "Mean loss at the last pass, by split.", roles: solve, label: "split", until: ofPass},
		{name: "seconds_total", help: "Seconds spent in each phase of runs.", roles: solve, label: "phase",
			values: []string{phaseSurvey, phaseVisit, phaseGather, phaseSolve}},

		{name: "ingested_rows_total", help: "Rows written to the examples topic by this process.", roles: ingests},
		{name: "lost_column_rows_total", help: "Rows, ingested by this process, that lack a column that earlier rows had, by column. They " +
			"are quarantined, unless the column is optional.", roles: ingests, label: "column"},
		{name: "quarantined_total", help: "Messages that this process could not ingest, or that its surveys could not use. A repeated survey " +
			"counts them again.", roles: slices.Concat(visits, ingests)},
		{name: "source_lag_messages", help: "Messages of the source topic not yet ingested.", roles: ingests, unset: true, until: ofTopic},
		{name: "joined_rows", help: "Messages of the source topic that were joined with an outcome, or have none.", roles: ingests,
			label: "state"},
		{name: "joined_outcomes", help: "Outcomes that have a row, have none, or came after their row was decided.", roles: ingests,
			label: "state"},
		{name: "outcome_disorder_seconds", help: "Maximum disorder of the outcomes that came after their row was decided.", roles: ingests,
			unset: true},

		{name: "scored_messages_total", help: "Messages with predictions written by this process.", roles: score},
		{name: "scored_rows_total", help: "Rows of these messages.", roles: score},
		{name: "scored_bad_messages_total", help: "Messages that can't be used: their predictions have the reason.", roles: score},
		{name: "scoring_version", help: "Number of the version that made the last predictions.", roles: score, unset: true},
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
		{name: "version", help: "Number of the newest version.", roles: run, unset: true, until: ofChain},
		{name: "offered_version", help: "Number of the newest offered version.", roles: run, unset: true, until: ofChain},
		{name: "offered_timestamp_seconds", help: "Unix time when the newest offered version was made.", roles: run, unset: true, until: ofChain},
		{name: "learnt_timestamp_seconds", help: "Unix time of the newest message learnt by a version.", roles: run, unset: true, until: ofChain},
		{name: "window_rows", help: "Rows of the window, without forgotten ones.", roles: run, unset: true, until: ofChain},
		{name: "version_seconds", help: "Seconds from the plan of the newest version to its end.", roles: run, unset: true, until: ofChain},
		{name: "prequential_error_ratio", help: "Error rate of the newest update on new rows before they were learnt, from 0 to 1.", roles: run,
			unset: true, until: ofChain},
		{name: "prequential_loss", help: "Mean loss of the newest update on new rows before they were learnt.", roles: run, unset: true,
			until: ofChain},
		{name: "prequential_log_loss", help: "Log loss of the probabilities of these rows.", roles: run, unset: true, until: ofChain},
		{name: "prequential_brier_score", help: "Brier score of these rows.", roles: run, unset: true, until: ofChain},
		{name: "prequential_calibration_error_ratio", help: "Expected calibration error of these rows, from 0 to 1.", roles: run, unset: true,
			until: ofChain},
		{name: "served_error_ratio", help: "Error rate of served predictions, on the new rows of the newest update that have one, from 0 to 1.",
			roles: run, label: "version", until: ofChain},
		{name: "served_rows", help: "New rows of the newest update for which a version answered.", roles: run, label: "version", until: ofChain},
		{name: "behind_messages", help: "Messages not learnt by any version: batches of rows of the topic examples at the last cut, and " +
			"messages of the topic source that are not ingested yet.", roles: run, label: "topic", until: ofChain},
		{name: "behind_rows", help: "Rows of these messages. Rows of unread messages are estimated; a message that is not ingested counts as " +
			"one row.", roles: run, unset: true, until: ofChain},
		{name: "holdout_error_ratio", help: "Error rate on the holdout rows visited by the newest version, from 0 to 1.", roles: run, unset: true,
			until: ofChain},
	}
}

// registered is the metrics of a process by name, with the rows of the table. Metrics that it does not have are ignored.
type registered struct {
	rows     map[string]metric
	gauges   map[string]*prometheus.GaugeVec
	counters map[string]*prometheus.CounterVec
}

// register registers the metrics of a role.
func register(role string, to prometheus.Registerer) registered {
	r := registered{map[string]metric{}, map[string]*prometheus.GaugeVec{}, map[string]*prometheus.CounterVec{}}
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
		r.rows[row.name] = row
		if strings.HasSuffix(row.name, "_total") {
			r.counters[row.name] = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: row.name, Help: row.help}, labels)
			to.MustRegister(r.counters[row.name])
		} else {
			r.gauges[row.name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: row.name, Help: row.help}, labels)
			to.MustRegister(r.gauges[row.name])
		}
		for _, values := range begin {
			if r.add(row.name, 0, values...); !row.unset {
				r.set(row.name, 0, values...)
			}
		}
	}
	return r
}

// set sets a gauge.
func (r registered) set(name string, value float64, label ...string) {
	if g := r.gauges[name]; g != nil {
		g.WithLabelValues(label...).Set(value)
	}
}

// add adds to a counter.
func (r registered) add(name string, value float64, label ...string) {
	if values := r.rows[name].values; r.counters[name] == nil || values != nil && !slices.Contains(values, label[0]) {
		return
	}
	r.counters[name].WithLabelValues(label...).Add(value)
}

// clear removes the values of gauges.
func (r registered) clear(scopes ...scope) {
	for name, g := range r.gauges {
		if slices.Contains(scopes, r.rows[name].until) {
			g.Reset()
		}
	}
}

// remove removes a value of a gauge with a label, or all of them.
func (r registered) remove(name string, label ...string) {
	switch g := r.gauges[name]; {
	case g == nil:
	case len(label) == 0:
		g.Reset()
	default:
		g.DeleteLabelValues(label...)
	}
}
