// Package config reads a YAML file, the environment and the command line into the checked options of a run, or lists
// everything that is wrong with them.
//
// The keys are the fields of [Config]. The code that a key sets declares it, checks its value and documents its meaning.
// Later sources replace earlier ones: the defaults, the file, environment variables (STAGEWISE_ and the key in capitals,
// with underscores for dots), settings of the command line (key=value). A mapping is replaced key by key, a list as a
// whole. The number of a stage, from 0, names one stage of the list, as in stages.0.passes. A password comes from the
// environment or from a file of its own, and no message shows it.
//
// docs/configuration.md lists the keys.
package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/serve"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Config is a complete configuration: what was set, and the defaults of everything else. [Load] returns one that is
// checked; the zero value is not a valid configuration. [Keys] documents the keys that the fields stand for.
type Config struct {
	job                        // its fields are keys, except those that Config has itself
	Brokers  []string          `single:"split"` // host:port of each; empty: the embedded broker, whose log is in DataDir
	Security kafkalog.Security // how to reach Brokers; the zero value is plain text without a login
	// folder of the embedded broker, relative to the working directory wherever it is set
	DataDir string
	Fsync   bool   // the embedded broker acknowledges messages that are on disk, not only in the memory of the operating system
	Listen  string // host:port of the embedded broker for other programs; empty: it does not listen
	Prepare Prepare
	Stages  []Stage      // an entry may stand for several stages; [Load] splits it if the last has another default of passes
	Memory  option.Bytes // for rows, blocks and matrices; 0: half of the free memory
	Metrics Metrics
	Logs    Log `yaml:"log"`
	Serve   serve.Options
	Score   Score

	ignored []string // environment variables with the prefix of keys that Kubernetes sets
}

type job = topics.Job

// Notice returns a notice for the user about the sources of the configuration, as a sentence; empty: none.
func (c *Config) Notice() string {
	if len(c.ignored) == 0 {
		return ""
	}
	names := c.ignored[0]
	if more := len(c.ignored) - 1; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return "ignored the environment variables of a Kubernetes Service, which are not keys: " + names +
		"; set enableServiceLinks: false in the pod"
}

// Prepare configures the preparation of raw features for the stages, and the conversion of words to features.
type Prepare struct {
	schemas.Prepare
	Hash layout.Hash
}

// Score configures the output of `score`.
type Score struct {
	Contributions int // number of columns whose contributions to each score are written; 0: none
}

// Log configures the content of logs, of the screen and of the page.
type Log struct {
	Values bool // include values of rows in the reasons for unusable messages
}

// Metrics configures the address of the metrics and health of services, except `serve`, which has its own address.
type Metrics struct {
	Listen string `null:"none"` // host:port; empty: nowhere
}

// DefaultListen is the default address of metrics: the port that OpenTelemetry gives Prometheus exporters
// (https://opentelemetry.io/docs/specs/otel/metrics/sdk_exporters/prometheus), on loopback.
const DefaultListen = "127.0.0.1:9464"

// ListenPorts is the number of ports to try for metrics, from the configured one on.
const ListenPorts = 10

// Stage is an entry of the list of stages: one stage, or several equal ones in a row.
type Stage struct {
	schemas.Stage
	Repeat int // number of stages that the entry stands for
}

// Defaults returns the configuration in which no key is set. Without a name it is not valid, and it has no stages.
func Defaults() *Config {
	return &Config{
		job: job{Examples: ingest.Defaults(), Average: 1, Seed: 1, Intercept: true, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16,
			Arithmetic: topics.ArithmeticStrict, Keep: topics.DefaultKeep, GiveUp: topics.DefaultGiveUp, Topics: topics.DefaultTopics(),
			Retrain: topics.DefaultRetrain()},
		DataDir: ".stagewise",
		Prepare: Prepare{Prepare: schemas.Prepare{Scale: stages.ScaleAuto, Values: stages.ValuesNone}},
		Metrics: Metrics{Listen: DefaultListen},
		Serve:   serve.Defaults(),
	}
}

// DefaultStage returns a stage in which no key is set. If only the kind of its features is set, and is columns, [Load]
// makes the size 0, which is all columns. In the last stage it makes the passes those of [solve.LastPasses], unless they are
// set. If the kind is gradient, it makes them [solve.MaxPasses], and the rounds those of [solve.DefaultRounds] unless either is set.
func DefaultStage() Stage {
	s := Stage{Stage: solve.Defaults(), Repeat: 1}
	s.Features = stages.Defaults()
	return s
}

// DefaultStop returns the defaults of a stage's stop rule. They apply once a key under stop is set: a stage without any has
// no stop rule.
func DefaultStop() *schemas.Stop { return &schemas.Stop{Split: examples.Holdout.String(), Patience: 2} }

// Log returns where the log is and how to reach it.
func (c *Config) Log() kafkalog.Options {
	return kafkalog.Options{Brokers: c.Brokers, DataDir: c.DataDir, Sync: c.Fsync, Listen: c.Listen, Security: c.Security}
}

// Job returns the job of the pipeline, in which every repeated stage is listed as often as it repeats.
func (c *Config) Job() topics.Job {
	j := c.job
	j.Memory, j.Prepare = int64(c.Memory), c.Prepare.Prepare
	for _, s := range c.Stages {
		j.Stages = append(j.Stages, slices.Repeat([]schemas.Stage{s.Stage}, min(max(s.Repeat, 0), maxStages))...) // before it is checked too
	}
	if j.Prepare.Values == stages.ValuesNone {
		j.Prepare.Values = "" // so that a plan of dense rows does not mention it
	}
	learnt := func(s schemas.Stage) bool { return solve.WholeSteps(s.Link) }
	j.Examples.Hash, j.Examples.Dense = c.Prepare.Hash, stages.NeedDense(j.Prepare, j.Stages, slices.ContainsFunc(j.Stages, learnt))
	if i := slices.IndexFunc(c.Stages, func(s Stage) bool { return stages.KindOf(s.Features).Counted }); i >= 0 {
		j.Examples.Counting = fmt.Sprintf("stages.%d.features.kind: %s", i, c.Stages[i].Features.Kind)
	}
	j.Examples.Outcome.Folder = filepath.Join(c.DataDir, c.Name+".waiting")
	return j
}

// The table in docs/configuration.md and docs/configuration.schema.json are generated: keys, types and defaults from the fields of Config,
// meanings from Keys.
//go:generate go test . -run ^Test(Reference|Schema)$ -update

// Keys documents every key of the configuration by its full name, in which * stands for the number of a stage. Other
// packages declare the meaning of a key beside the code that the key sets; this package declares the rest.
func Keys() []option.Key {
	under := option.Under
	return slices.Concat(ownKeys(), under("security", secure.Keys()), under("examples", ingest.Keys()), under("topics", topics.TopicKeys()),
		under("retrain", topics.RetrainKeys()), under("serve", serve.Keys()), under("prepare", stages.PrepareKeys()),
		under("prepare", layout.HashKeys()), under("stages.*.features", stages.Keys()), under("stages.*", solve.Keys()))
}

// ownKeys is the table of the keys that this package declares.
func ownKeys() []option.Key {
	return []option.Key{
		{Name: "name", Meaning: fmt.Sprintf("prefix of the topic names: at most %d letters, digits, dots, hyphens and underscores",
			maxNameLength)},
		{Name: "brokers", Meaning: "`host:port` of the Kafka brokers. Empty: the embedded broker, with its log in `data_dir`"},
		{Name: "data_dir", Rule: option.Rule{Want: "the path of a folder", Holds: func(v any) bool { return v != "" }},
			Meaning: "folder of the embedded broker, relative to the working directory. Only one process at a time can " +
				"use it"},
		{Name: "fsync", Excludes: map[string]string{"brokers": "no value, because brokers is set: Kafka brokers have their own setting"},
			Meaning: "the embedded broker acknowledges a message only once it is on disk: see " +
				"[operating](operating.md#the-log-of-the-embedded-broker)"},
		{Name: "listen", Meaning: "loopback `host:port` on which other programs reach the embedded broker. Without authentication, every " +
			"user of the machine can read and write all topics. Empty: none"},
		{Name: "stages.*.repeat", Meaning: "number of consecutive stages with these settings"},
		{Name: "average", Rule: option.Whole(1, maxAverage),
			Meaning: "number of models with their own random features, whose mean prediction a version predicts. See " +
				"[images](images.md); not for `run`"},
		{Name: "threshold", Meaning: "with two classes, the minimum probability for predicting the second: a number, `best_f1`, or costs " +
			"such as `{cost: {fp: 1, fn: 20}}`: see [a threshold](serving.md#a-threshold)"},
		{Name: "seed", Meaning: "random seed, from 0 to 2^64-1"},
		{Name: "intercept", Meaning: "give the first stage an intercept; with `average`, the first stage of each model"},
		{Name: "on_bad_message", Rule: option.OneOf(schemas.QuarantineBadMessages, schemas.StopOnBadMessage),
			Meaning: fmt.Sprintf("what to do with a message that cannot be used: `%s` it and continue, or `%s` "+
				"the run",
				schemas.QuarantineBadMessages, schemas.StopOnBadMessage)},
		{Name: "memory", Meaning: "memory for rows, blocks and matrices, such as 512MB or 1GiB. 0: half of the free memory, within the " +
			"limit of a container. What does not fit is read or computed again in each pass"},
		{Name: "segment", Rule: option.Whole(1, 0),
			Meaning: "number of messages summed as one, regardless of the spans of a run"},
		{Name: "group", Rule: option.Whole(0, 0),
			Meaning: fmt.Sprintf("number of partitions of a share, which one worker owns: see [scaling](scaling.md). 0: there are at most %d "+
				"shares, and a small run has one. Another number changes the last bits of the weights", schemas.DefaultShares)},
		{Name: "arithmetic", Rule: option.OneOf(topics.ArithmeticStrict, topics.ArithmeticAny),
			Meaning: fmt.Sprintf("`%s`: only processes with the same numeric code, processor, BLAS and vector "+
				"instructions work on a run, and its weights are bit-identical; `%s`: any machine, and weights may differ in the last bits",
				topics.ArithmeticStrict, topics.ArithmeticAny)},
		{Name: "keep", Rule: option.Whole(1, maxKeep),
			Meaning: "number of newest versions to keep on the topic `versions`, besides the one that subscribers get and " +
				"those that an unfinished run needs"},
		{Name: "give_up", Rule: option.Range(float64(time.Minute), float64(maxGiveUp), "a time from 1m to 8760h"),
			Meaning: "fail a run that no worker starts within this time"},
		{Name: "warm", Rule: option.Rule{Want: protocol.Latest + ", or the number of a version, from 1", Holds: func(v any) bool {
			n, err := strconv.ParseUint(v.(string), 10, 31)
			return v == "" || v == protocol.Latest || err == nil && n > 0
		}}, Meaning: "start from the weights of a version: its number, or `" + protocol.Latest +
			"`: the highest number, even if it is not offered"},
		{Name: "metrics.listen", Rule: option.Rule{Want: "host:port to listen on, or null to serve no metrics", Holds: func(v any) bool {
			return v == "" || isListenAddress(v.(string))
		}}, Meaning: fmt.Sprintf("address of `/metrics`, `/live` and `/ready` of services; of `serve` only if it is "+
			"not the default. `null`: none. If the port is in use, a process takes the first free one of the next %d, and logs it",
			ListenPorts-1)},
		{Name: "score.contributions", Rule: option.Whole(0, 0), Meaning: "`score` also writes the contributions of so many columns, those " +
			"that add the most to each score: see [contributions](your-own-data.md#what-predictions-depend-on). 0: none"},
		{Name: "log.values", Meaning: "show values of rows in the reasons why messages can't be used, in logs, on the screen and on the " +
			"page; otherwise the place and the column"},
	}
}
