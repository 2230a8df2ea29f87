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
		Known bool // all of its rows were there before
	}
	// Serving says at which address a service answers questions about itself.
	Serving struct{ Address string }
	// Began says that a run is planned.
	Began struct {
		Run      string
		Resumed  bool // it was found unfinished
		Followed bool // others work on it
		Stages   []schemas.Stage
	}
	// Progressed says how many of the rows of a visit a worker has read.
	Progressed struct {
		Stage, Visit int // Stage is schemas.Survey in the survey
		Rows, Of     int64
	}
	// Quarantined says that a message can't be used, and why.
	Quarantined struct {
		Partition int
		Offset    int64
		Reason    string
	}
	// Owned says that the partitions of a role have changed.
	Owned struct {
		Run        string
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
		Waited       time.Duration // for the statistics that the weights were made of
		Elapsed      time.Duration // since these were complete
	}
	// Advanced says that weights are accepted, and which visit a run that others work on has come to. Stage is the number of
	// stages when no visit is left.
	Advanced struct {
		Run          string
		Stage, Visit int
	}
	// Surveyed says that the survey's result is on the weights topic.
	Surveyed struct {
		Rows     map[schemas.Split]int64
		Features int // before preparation
		Inputs   int // after it
		Classes  int
		Elapsed  time.Duration // since the run began in this process; 0: elsewhere
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
	// Ended says that the run is over.
	Ended struct {
		Run, State, Reason string
	}
	// Waiting says how long trouble with the brokers has been waited out, or that it is over.
	Waiting struct {
		What  string
		Since time.Duration
		Err   error
		Over  bool
	}
	// Noticed is something that an operator should know.
	Noticed struct{ Text string }
)

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
