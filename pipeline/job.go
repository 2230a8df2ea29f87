package pipeline

import (
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/schemas"
)

// Job is what a user asks for: a configuration without the brokers. With the spans of the examples topic it becomes a plan.
type Job struct {
	Name         string // prefix of the topics
	Examples     ingest.Options
	Prepare      schemas.Prepare
	Stages       []schemas.Stage // resolved: a repeated stage as often as it repeats
	Intercept    bool
	Seed         uint64
	OnBadMessage string // schemas.QuarantineBadMessages or schemas.StopOnBadMessage
	Segment      int64  // messages that are summed as one
	Memory       int64  // bytes for prepared rows and blocks; 0: half of what is free
	Warm         string // the version to start from: a number, a run, or run.Latest; "": none
}
