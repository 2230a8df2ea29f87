package pipeline

import (
	"fmt"
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// Recorder is told what happens, as it happens; the progress bar, the logs and
// the tests are recorders. Record is called from one goroutine at a time and
// must not block.
type Recorder interface{ Record(Event) }

// notice tells of something that whoever looks after it should know. It is put into
// words for who listens only: a follower that waits notices much.
func notice(rec Recorder, format string, values ...any) {
	if rec != (ignored{}) {
		rec.Record(Noticed{fmt.Sprintf(format, values...)})
	}
}

// passOver tells of a message of a topic that can't be read, or is not wanted.
func passOver(rec Recorder, topic string, err error) {
	notice(rec, "a message of the %s topic is passed over: %v", topic, err)
}

// Event is one of the types below.
type Event interface{ event() }

type (
	// Ingested: so many rows of a source are on the topic. Known is set when all of them were there before.
	Ingested struct {
		Files []string
		Split schemas.Split
		Rows  int64
		Done  bool // the source is sealed
		Known bool
	}
	// Serving: a service answers questions about itself at this address.
	Serving struct{ Address string }
	// Began: a run is planned, or found unfinished and resumed, or is followed while others work on it.
	Began struct {
		Run      string
		Resumed  bool
		Followed bool
		Stages   []schemas.Stage
	}
	// Progressed: a worker has gone through so many of the rows of a visit.
	Progressed struct {
		Stage, Visit int // Stage is schemas.Survey in the survey
		Rows, Of     int64
	}
	// Quarantined: a message can't be used.
	Quarantined struct {
		Partition int
		Offset    int64
		Reason    string
	}
	// Owned: the partitions that a worker owns have changed.
	Owned struct {
		Run        string
		Partitions []int
	}
	// Visited: a worker has published the sums of partitions for a visit.
	Visited struct {
		Run          string
		Stage, Visit int
		Partitions   []int
		Rows         int64
		Elapsed      time.Duration
	}
	// Sealed: a worker has published and sealed the residuals of partitions after a stage.
	Sealed struct {
		Run        string
		Stage      int
		Partitions []int
		Rows       int64
		Elapsed    time.Duration
	}
	// Solved: the solver has published the weights for a visit.
	Solved struct {
		Run          string
		Stage, Visit int
		Waited       time.Duration // for the statistics that they were made of
		Elapsed      time.Duration // since these were complete
	}
	// Advanced: weights are accepted, and a run that others work on is at this visit; Stage is the number of stages when
	// there are no more.
	Advanced struct {
		Run          string
		Stage, Visit int
	}
	// Surveyed: the survey's result is on the weights topic.
	Surveyed struct {
		Rows     map[schemas.Split]int64
		Features int // before preparation
		Inputs   int // after it
		Classes  int
		Elapsed  time.Duration // since the run began in this process; 0: elsewhere
	}
	// Passed: the solver has reduced a visit.
	Passed struct {
		Stage, Visit int
		Pass         int // 1, 2, …: how many visits with a gradient the stage has had
		Accepted     bool
		Objective    float64 // J; the training loss for a calibrated stage
		Scores       map[schemas.Split]Score
	}
	// StageEnded: all residuals of a stage are sealed.
	StageEnded struct {
		StageReport
		Stages int // of the run
	}
	// Ended: the run is over.
	Ended struct {
		Run, State, Reason string
	}
	// Waiting: trouble with the brokers has been waited out for so long, or is over.
	Waiting struct {
		What  string
		Since time.Duration
		Err   error
		Over  bool
	}
	// Noticed: something that whoever looks after it should know.
	Noticed struct{ Text string }
)

// Score is what a visit says of a split.
type Score struct {
	Rows  int64
	Error float64 // percent, weighted
	Loss  float64 // the link's own, weighted mean
}

func (Ingested) event()    {}
func (Serving) event()     {}
func (Began) event()       {}
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
func (Ended) event()       {}
func (Waiting) event()     {}
func (Noticed) event()     {}
