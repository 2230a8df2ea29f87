package event

import (
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// Event is one of the types below.
type Event interface{ event() }

type (
	// Ingested says how many rows of a source are on the topic.
	Ingested struct {
		Files []string
		Split schemas.Split
		Rows  int64
		Done  bool // the source is sealed
		Known bool // its rows were on the topic before
	}
	// Following says that ingest follows a topic until it is interrupted.
	Following struct{ Topic string }
	// Serving says at which address a service answers requests for its metrics and its health.
	Serving struct{ Address string }
	// Answering says at which address a server answers requests for predictions, as a URL.
	Answering struct{ URL string }
	// Answers says which version answers requests for predictions from now on; 0: none.
	Answers struct{ Version int }
	// Scored says that messages of a partition have predictions.
	Scored struct {
		Partition, Messages int
		Rows                int64
		Bad                 int // messages that can't be used
		Version             int // that predicts the last of them
	}
	// ScoringLag says, of each partition that this process predicts for, how many offsets it has after the last one with predictions.
	ScoringLag struct{ Offsets map[int]int64 }
	// Shown says at which address a page shows the pipeline, as a URL.
	Shown struct{ URL string }
	// Began says that a run is planned.
	Began struct {
		Run      string
		Resumed  bool // it was found unfinished
		Followed bool // others work on it
		Chained  bool // it is of a chain, which has another event when it is done
		Stages   []schemas.Stage
		Members  int // that these stages are of, and that are averaged; 1: none are
	}
	// Followed says what a run that others work on waits for, and who they are. Stage is the number of stages when no visit is left.
	Followed struct {
		Run          string
		Behind       []string // the runs that go first
		Stage, Visit int      // that is due
		Staff        Staff
		Quiet        time.Duration // since something has come of the run; 0 when following begins
	}
	// StoodAside says that a run goes first that this process can't work on, or that this is over.
	StoodAside struct {
		Run, Why string
		Over     bool
	}
	// Solving says whether this process solves a run, or stands by while another does.
	Solving struct {
		Run    string
		Active bool
	}
	// Progressed says how many rows of a visit a worker has read, of how many. Of is 0 if that is not known.
	Progressed struct {
		Stage, Visit int // Stage is schemas.Survey in the survey
		Rows, Of     int64
	}
	// Quarantined says that a message can't be used, and why.
	Quarantined struct {
		Topic     string // that ingest follows; "": the examples topic
		Partition int
		Offset    int64
		Reason    string
	}
	// Owned says which partitions a role owns, as these have changed.
	Owned struct {
		Run        string // empty between runs
		Partitions []int
	}
	// Visited says that a worker has published the sums of partitions for a visit.
	Visited struct {
		Run          string
		Stage, Visit int
		Partitions   []int
		Rows         int64
		Elapsed      time.Duration
	}
	// Sealed says that a worker has published and sealed the residuals of partitions after a stage.
	Sealed struct {
		Run        string
		Stage      int
		Partitions []int
		Rows       int64
		Elapsed    time.Duration
	}
	// Solved says that the solver has published the weights for a visit.
	Solved struct {
		Run          string
		Stage, Visit int
		Waited       time.Duration // for the statistics that the weights are computed from
		Elapsed      time.Duration // since the statistics were complete
	}
	// Advanced says that weights of a run that others work on are accepted, and which visit is due now. Stage is the number of
	// stages when no visit is left.
	Advanced struct {
		Run          string
		Stage, Visit int
	}
	// Surveyed says that the survey's result is on the weights topic.
	Surveyed struct {
		Rows     map[schemas.Split]int64
		Features int // before preparation
		Inputs   int // after preparation
		Sparse   bool
		Classes  int
		Task     schemas.Task // what the run predicts
		// PassedOver counts the messages that the run leaves out.
		PassedOver schemas.PassedOver
		Elapsed    time.Duration // since this process began the run; 0 if others solve it
	}
	// Passed says that the solver has reduced a visit with a gradient.
	Passed struct {
		Stage, Visit int
		Pass         int // 1, 2, …: how many such visits the stage has had
		Accepted     bool
		Objective    float64 // J; if the link is learnt, the training loss
		Metrics      map[schemas.Split]Metrics
	}
	// StageEnded says that all residuals of a stage are sealed.
	StageEnded struct {
		schemas.StageReport
		Stages int // of the run
	}
	// Retrained says that a chain has another version.
	Retrained struct {
		schemas.RetrainReport
		Number int // of the run in the chain
	}
	// Behind says how much of the examples topic no version of a chain has learnt. Rows are estimated where messages have not been read yet.
	Behind struct{ Messages, Rows int64 }
	// Replaced says that a partition of the examples does not hold what a chain has looked at there: it was truncated, or the topic is another.
	Replaced struct {
		Topic     string
		Partition int
		Looked    int64 // before which offset the chain had looked at all messages
		Proven    int64 // before which offset they are still there
		Rows      int64 // that leave the window
	}
	// Incomplete says that a version is passed over, as a part of it is not on the versions topic.
	Incomplete struct {
		Version int
		Why     error
	}
	// Ended says that the run is over.
	Ended struct {
		Run, State, Reason string
	}
	// Waiting says that an operation is being retried because of trouble with the brokers, or that the retries have ended.
	Waiting struct {
		What  string        // the operation
		Since time.Duration // how long ago it failed first
		Err   error         // why it fails
		Over  bool
	}
	// Noticed is something that an operator should know.
	Noticed struct{ Text string }
)

// Staff is who works on the runs of a pipeline: the host of each member of the groups of workers and of solvers.
type Staff struct {
	Workers, Solvers []string
	// Embedded says that the brokers are the embedded one of a process. That process works too, as a member of no group.
	Embedded bool
	// Unknown is why the rest is not known, or nil.
	Unknown error
}

func (Ingested) event()    {}
func (Following) event()   {}
func (Serving) event()     {}
func (Answering) event()   {}
func (Answers) event()     {}
func (Scored) event()      {}
func (ScoringLag) event()  {}
func (Shown) event()       {}
func (Began) event()       {}
func (Followed) event()    {}
func (StoodAside) event()  {}
func (Solving) event()     {}
func (Progressed) event()  {}
func (Quarantined) event() {}
func (Owned) event()       {}
func (Visited) event()     {}
func (Sealed) event()      {}
func (Solved) event()      {}
func (Advanced) event()    {}
func (Surveyed) event()    {}
func (Passed) event()      {}
func (StageEnded) event()  {}
func (Retrained) event()   {}
func (Behind) event()      {}
func (Replaced) event()    {}
func (Incomplete) event()  {}
func (Ended) event()       {}
func (Waiting) event()     {}
func (Noticed) event()     {}
