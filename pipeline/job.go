package pipeline

import (
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/schemas"
)

// Job is what somebody asks for: a configuration without the brokers. With
// the spans of the examples topic it becomes a plan.
type Job struct {
	Name         string
	Examples     ingest.Options
	Prepare      schemas.Prepare
	Stages       []schemas.Stage // resolved: a repeated stage as often as it repeats
	Intercept    bool
	Seed         uint64
	OnBadMessage string
	Segment      int64
	Memory       int64  // bytes for prepared rows and blocks; 0: half of what is free
	Warm         string // "" or the version (a number, or `latest`) to start from
}
