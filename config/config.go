package config

import (
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Config is what a file says, with the defaults for what it leaves out. It is made by [Load].
type Config struct {
	Name         string   // prefix of the topics
	Brokers      []string // host:port; empty: the embedded broker, its log under DataDir
	Security     kafkalog.Security
	DataDir      string `mapstructure:"data_dir"`
	Examples     ingest.Options
	Prepare      schemas.Prepare
	Stages       []Stage
	Seed         uint64
	Intercept    bool
	OnBadMessage string `mapstructure:"on_bad_message"` // quarantine | stop
	Memory       Bytes  // for prepared rows and blocks; 0: half of what is free
	Segment      int    // messages
	Warm         string // "", latest, or the number of a version
	Metrics      Metrics

	path string // of the file, for CheckStages
}

// Metrics says where a service answers who asks how it is doing.
type Metrics struct {
	Listen string // host:port; empty: nowhere
}

// DefaultListen is that of Prometheus' exporters in general
// (https://opentelemetry.io/docs/specs/otel/metrics/sdk_exporters/prometheus), on loopback.
const DefaultListen = "127.0.0.1:9464"

// Stage is an entry of the list of stages: one stage, or the same stage several times in a row.
type Stage struct {
	schemas.Stage `mapstructure:",squash"`
	Repeat        int
}

// Defaults is a configuration that says nothing. It lacks a name and stages.
func Defaults() *Config {
	return &Config{
		DataDir:      ".stagewise",
		Examples:     ingest.Defaults(),
		Prepare:      schemas.Prepare{Scale: stages.ScaleNone},
		Seed:         1,
		Intercept:    true,
		OnBadMessage: onBadQuarantine,
		Segment:      16,
		Metrics:      Metrics{Listen: DefaultListen},
	}
}

// DefaultStage is a stage of which nothing is said. Features of kind columns are all of them, unless their size is said.
func DefaultStage() Stage {
	s := Stage{Stage: solve.Defaults(), Repeat: 1}
	s.Features = stages.Defaults()
	return s
}

// DefaultStop is when a stage stops that says something of it. One that says nothing has no stop.
func DefaultStop() *schemas.Stop { return &schemas.Stop{Split: schemas.Holdout.String(), Patience: 2} }

// Log is where the log is, and how it is reached.
func (c *Config) Log() kafkalog.Options {
	return kafkalog.Options{Brokers: c.Brokers, DataDir: c.DataDir, Security: c.Security}
}

// Job is what the pipeline is to do, each repeated stage as often as it repeats.
func (c *Config) Job() pipeline.Job {
	var resolved []schemas.Stage
	for _, s := range c.Stages {
		for range s.Repeat {
			resolved = append(resolved, s.Stage)
		}
	}
	return pipeline.Job{
		Name:         c.Name,
		Examples:     c.Examples,
		Prepare:      c.Prepare,
		Stages:       resolved,
		Intercept:    c.Intercept,
		Seed:         c.Seed,
		OnBadMessage: c.OnBadMessage,
		Segment:      int64(c.Segment),
		Memory:       int64(c.Memory),
		Warm:         c.Warm,
	}
}
