package topics

import (
	"slices"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/threshold"
)

// DefaultKeep is how many versions stay if nobody says how many.
const DefaultKeep = 20

// DefaultGiveUp is after how long a run is given up that nobody has taken up, if nobody says after how long.
const DefaultGiveUp = time.Hour

// Job is what a user asks for: a configuration without the brokers. A job and the spans of the examples topic make a plan.
type Job struct {
	Name         string // prefix of the topics
	Examples     ingest.Options
	Prepare      schemas.Prepare
	Stages       []schemas.Stage // a repeated stage is here once for each repetition; those of a member, if Average is set
	Untuned      bool            // the one stage is the columns of examples, and no key but its link says how they are prepared and fitted
	Unlinked     bool            // no key says the link of the first stage
	Average      int             // how many members are averaged; 0 and 1: none
	Threshold    threshold.Rule  // from which probability of the second of two classes on a row is given it; zero: the most probable one is
	Intercept    bool            // the first block has a constant feature, or that of each member
	Seed         uint64          // of all random draws
	OnBadMessage string          // schemas.QuarantineBadMessages or schemas.StopOnBadMessage
	Segment      int64           // how many messages are summed as one
	Group        int             // how many partitions are merged first; 0: coverage.GroupSize
	Memory       int64           // bytes for rows, blocks and matrices; 0: half of the free memory
	Arithmetic   string          // ArithmeticStrict, which "" is too, or ArithmeticAny
	Topics       TopicOptions    // of topics that are created; the zero value is DefaultTopics()
	Keep         int             // how many versions stay; 0: DefaultKeep
	GiveUp       time.Duration   // after which a run is given up that nobody has taken up; 0: DefaultGiveUp
	Retrain      RetrainOptions  // of `run`
	Warm         string          // the version to start from: its number, its run, or run.Latest for the one with the highest number; "": none
}

// Members returns the stages of all members, one member after the other.
func (j Job) Members() []schemas.Stage {
	if j.Average > 1 {
		return slices.Repeat(j.Stages, j.Average)
	}
	return j.Stages
}

// Merges returns how the sums of the job's runs over partitions associate.
func (j *Job) Merges() coverage.Tree {
	return coverage.Tree{Parts: j.Examples.Partitions, Group: j.Group}
}
