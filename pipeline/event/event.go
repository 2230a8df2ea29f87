package event

import (
	"fmt"
	"time"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Event is one of the types below.
type Event any

type (
	// Ingested reports the number of rows of a source on the topic.
	Ingested struct {
		Files []string
		Split examples.Split
		Rows  int64
		Done  bool `log:"-"` // the source is sealed
		Known bool // its rows were already on the topic
	}
	// Joined reports the numbers of rows and outcomes joined so far.
	Joined struct {
		Rows, Outcomes string // topics
		Counts         examples.JoinCounts
	}
	// Following reports that ingest follows a topic until it is interrupted.
	Following struct{ Topic string }
	// Serving reports the address of a service's metrics and health.
	Serving struct{ Address string }
	// Answering reports the URL of a server's predictions.
	Answering struct{ URL string }
	// Answers reports the version that predicts from now on, for requests or for messages.
	Answers struct {
		Version int   // 0: none, so that requests are rejected, and messages wait
		Why     error `log:"because"` // reason why there is none
	}
	// Scored reports that messages of a partition have predictions.
	Scored struct {
		Partition, Messages int
		Rows                int64
		Bad                 int // number of unusable messages
		Version             int // version of the last predictions
	}
	// Predicted reports that the messages of a topic have predictions, up to the end that the topic had.
	Predicted struct{ From, To string }
	// ScoringLag reports, for each partition that this process scores, the number of offsets after the last one with predictions.
	ScoringLag struct{ Offsets map[int]int64 }
	// PageServed reports the URL of the pipeline's page.
	PageServed struct{ URL string }
	// Began reports that a run is planned.
	Began struct {
		Run      string
		Resumed  bool // the run was unfinished
		Followed bool // other processes work on it
		Chained  bool // it belongs to a chain, which reports its end with another event
		Stages   []schemas.Stage
		Members  int // number of averaged members with these stages; 1: no averaging
	}
	// Followed reports what a run of other processes waits for, and its workers and solvers. Stage is the number of stages
	// when no visit is left.
	Followed struct {
		Run          string
		Behind       []string // earlier runs
		Stage, Visit int      // of the due visit
		Staff        Staff
		Quiet        time.Duration `log:"waited_seconds"` // time since the last progress of the run; 0 at the start of following
	}
	// StoodAside reports that this process waits for an earlier run that it can't execute, or, with Over, that the wait has ended.
	StoodAside struct {
		Run, Why string
		Over     bool
	}
	// Solving reports whether this process solves a run, or is on standby.
	Solving struct {
		Run    string
		Active bool
	}
	// Progressed reports the rows of a visit that a worker has read, and their total. Of is 0 if the total is unknown.
	Progressed struct {
		Stage, Visit int // Stage is schemas.Survey in the survey
		Rows, Of     int64
	}
	// Trying is Progressed of a run that helps to choose the stages of another run.
	Trying struct{ Progressed }
	// Quarantined reports an unusable message, with the reason.
	Quarantined struct {
		Topic     string // topic that ingest follows; "": the examples topic
		Partition int
		Offset    int64
		Reason    string
		Messages  int // number of unusable messages of the partition since the last event, of which this is the newest; 0: one
	}
	// Owned reports the partitions of a role after a change.
	Owned struct {
		Run        string // empty between runs
		Partitions []int
	}
	// Visited reports that a worker has published the sums of partitions for a visit.
	Visited struct {
		Run          string
		Stage, Visit int
		Partitions   []int
		Rows         int64
		Elapsed      time.Duration `log:"seconds"`
	}
	// Sealed reports that a worker has published and sealed the residuals of partitions after a stage.
	Sealed struct {
		Run        string
		Stage      int
		Partitions []int
		Rows       int64
		Elapsed    time.Duration `log:"seconds"`
	}
	// Solved reports that the solver has published the weights for a visit.
	Solved struct {
		Run          string
		Stage, Visit int
		Waited       time.Duration `log:"waited_seconds"` // for the statistics from which the weights are computed
		Elapsed      time.Duration `log:"seconds"`        // since the statistics were complete
	}
	// Advanced reports accepted weights of a run of other processes, and the next visit. Stage is the number of
	// stages when no visit is left.
	Advanced struct {
		Run          string
		Stage, Visit int
	}
	// Surveyed reports that the survey's result is on the weights topic.
	Surveyed struct {
		Rows     map[examples.Split]int64
		Features int // before preparation
		Inputs   int // after preparation
		Sparse   bool
		Classes  int
		Task     examples.Task `log:"-"` // prediction task of the run
		// PassedOver counts the messages that the run excludes.
		PassedOver coverage.PassedOver
		Elapsed    time.Duration `log:"seconds"` // since this process started the run; 0 if another process solves it
	}
	// Passed reports that the solver has reduced a visit with a gradient.
	Passed struct {
		Stage, Visit int
		Pass         int // number of the stage's visits with a gradient: 1, 2, …
		Accepted     bool
		Objective    float64 // J; if the link is learnt, the training loss
		Metrics      map[examples.Split]Metrics
	}
	// StageEnded reports that all residuals of a stage are sealed.
	StageEnded struct {
		schemas.StageReport
		Stages int // of the run
	}
	// Retrained reports another version of a chain.
	Retrained struct {
		schemas.RetrainReport
		Number int // of the run in the chain
	}
	// Behind is the backlog of a chain on the examples topic. Rows are estimated where messages have not been read yet.
	Behind struct{ Messages, Rows int64 }
	// SourceLag is the number of waiting messages of a followed topic.
	SourceLag struct {
		Topic    string
		Messages int64
	}
	// Expecting reports what a chain waits for. An update is due when Of rows have arrived, or the first of them has waited for After.
	Expecting struct {
		Rows, Of int64
		After    time.Duration `log:"after_seconds"` // since the first row; 0: only the number of rows counts
		Until    time.Time     // end of that time; zero: there is no row yet
		Again    bool          `log:"-"` // an earlier event has reported that the chain waits
	}
	// StoodBy reports that this process waits for its turn, because another one of the role may be active.
	StoodBy struct {
		Role string
		Why  string `log:"because"`
	}
	// Replaced reports that a partition of the examples no longer has the messages that a chain has read: it was truncated, or
	// the topic was recreated.
	Replaced struct {
		Topic     string
		Partition int
		Looked    int64 `log:"learnt_before"` // offset up to which the chain had processed messages
		Proven    int64 `log:"proven_before"` // offset up to which they still exist
		Rows      int64 // number of rows that leave the window
	}
	// Lost reports offsets of a source topic whose messages were not read: they were deleted before, or are missing in an archive.
	Lost struct {
		Topic     string
		Partition int
		From, To  int64 // [From, To)
	}
	// ColumnLost reports new rows without a value in a column of a followed topic that earlier rows had. Their messages are
	// quarantined, unless the column is optional. Such rows of a file are ingested.
	ColumnLost struct {
		Topic, Column string
		File          string // "": the rows are of Topic
		Rows          int64  // 0: none yet, when the topic is first read
		Optional      bool
	}
	// Incomplete reports that a version is skipped because a part of it is not on the versions topic.
	Incomplete struct {
		Version int
		Why     error `log:"because"`
	}
	// Ended reports the end of the run.
	Ended struct {
		Run, State, Reason string
	}
	// Waiting reports that an operation is retried because of broker errors, or that the retries have ended.
	Waiting struct {
		What  string        // the operation
		Since time.Duration // time since the first failure
		Err   error         // why it fails
		Over  bool
	}
	// Rewritten reports that messages, which the brokers may already have, are written to a topic again.
	Rewritten struct{ Topic string }
	// Noticed is a notice for the operator.
	Noticed struct{ Text string }
)

// Staff lists the hosts of the members of the groups of workers and of solvers.
type Staff struct {
	Workers, Solvers []string
	// Embedded means that the brokers are an embedded one, whose process is a worker and solver outside of any group.
	Embedded bool
	// Unknown is the reason why the members are unknown, or nil.
	Unknown error
}

// Metrics are the measurements of a visit on one split.
type Metrics struct {
	Rows  int64
	Error float64 // percent, weighted
	Loss  float64 // loss of the link, weighted mean
}

// MetricsOf returns the metrics of each split with rows, from the sums of a visit.
func MetricsOf(sums wire.Tensors[float64]) map[examples.Split]Metrics {
	metrics := map[examples.Split]Metrics{}
	for split, s := range statistics.LossesOf(sums) {
		if s.Rows > 0 {
			metrics[examples.Split(split)] = Metrics{Rows: int64(s.Rows), Error: wire.Finite(s.ErrorPercent()), Loss: wire.Finite(s.MeanLoss())}
		}
	}
	return metrics
}

// StageName returns the name of a stage in errors: by index, as in the configuration.
func StageName(stage int) string {
	if stage == wire.Survey {
		return "the survey"
	}
	return fmt.Sprintf("stage %d", stage)
}

// StageOf returns the name of a stage in overviews: counted from 1, with the number of stages.
func StageOf(stage, stages int) string {
	return fmt.Sprintf("stage %d of %d", stage+1, stages)
}

// VisitOf returns the name of a visit in overviews.
func VisitOf(stage, visit, stages int) string {
	if stage == wire.Survey {
		return StageName(stage)
	}
	return fmt.Sprintf("visit %d of %s", visit+1, StageOf(stage, stages))
}
