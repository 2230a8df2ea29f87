package topics

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// DefaultKeep is the default number of retained versions.
const DefaultKeep = 20

// DefaultGiveUp is the default time after which a run that no process has started ends as failed.
const DefaultGiveUp = time.Hour

// Values of the key `arithmetic`.
const (
	// ArithmeticStrict restricts a run to processes with the same arithmetic, so that its weights are bit-identical.
	ArithmeticStrict = "strict"
	// ArithmeticAny lets any machines work on a run. The last bits of its weights are then not reproducible.
	ArithmeticAny = "any"
)

// Job is a configuration without the brokers. A job and the spans of the examples topic make a plan.
type Job struct {
	Name         string // prefix of the topics
	Examples     ingest.Options
	Prepare      schemas.Prepare       `yaml:"-"`
	Stages       []schemas.Stage       `yaml:"-"` // repeated stages are listed as often; if Average is set, of a member
	Untuned      bool                  `yaml:"-"` // no key configures how sparse rows are prepared and fitted, except the link of columns
	Unlinked     bool                  `yaml:"-"` // the link of the first stage is not configured
	Average      int                   // number of averaged members; 0 and 1: no averaging
	Threshold    schemas.ThresholdRule // probability from which the second of two classes is predicted; zero: the most probable class is
	Intercept    bool                  // the first block, or that of each member, has a constant feature
	Seed         uint64                // of all random draws
	OnBadMessage string                // schemas.QuarantineBadMessages or schemas.StopOnBadMessage
	Segment      int64                 // number of messages summed together
	Group        int                   // number of partitions of a share; 0: chosen by the amount of work
	Memory       int64                 `yaml:"-"` // memory for rows, blocks and matrices in bytes; 0: half of the free memory
	Arithmetic   string                // ArithmeticStrict, or "", or ArithmeticAny
	Topics       TopicOptions          // of created topics; the zero value is DefaultTopics()
	Keep         int                   // number of retained versions; 0: DefaultKeep
	GiveUp       time.Duration         // time after which a run that no process has started ends as failed; 0: DefaultGiveUp
	Retrain      RetrainOptions        // of `run`
	Warm         string                // version to start from: its number, its run, or protocol.Latest; "": none
}

// Members returns the stages of all members, one member after the other.
func (j Job) Members() []schemas.Stage {
	if j.Average > 1 {
		return slices.Repeat(j.Stages, j.Average)
	}
	return j.Stages
}

// Remakes reports whether examples expire, and ingest can make them again from the followed topic. Which outcome a row gets depends
// on both topics, so examples with outcomes can't be made again.
func (j *Job) Remakes() bool {
	return j.Examples.FromTopic != "" && j.Examples.Outcome.Topic == "" && j.Topics.Retention.Examples > 0
}

// ShareSize returns the minimum number of partitions of a share of a topic with the given number of partitions.
func (j *Job) ShareSize(partitions int) int {
	return schemas.ShareSize(j.Group, partitions, schemas.DefaultShares)
}

// Settings returns digests of the job's settings on which the versions of a chain depend, by key in order. It omits zero
// values, files, and settings that may differ between processes.
func (j Job) Settings() (list []schemas.Setting) {
	all := map[string]string{}
	addSettings(all, "examples.", reflect.ValueOf(j.Examples))
	addSettings(all, "prepare.", reflect.ValueOf(j.Prepare))
	addSettings(all, "retrain.", reflect.ValueOf(j.Retrain))
	for key, value := range map[string]any{"stages": j.Stages, "threshold": j.Threshold, "intercept": j.Intercept, "seed": j.Seed,
		"on_bad_message": j.OnBadMessage, "segment": j.Segment, "group": j.Group, "arithmetic": j.Arithmetic, "keep": j.Keep} {
		addSetting(all, key, reflect.ValueOf(value))
	}
	maps.DeleteFunc(all, func(key, _ string) bool {
		return strings.HasPrefix(key, "examples.registry.") || slices.Contains([]string{"examples.train", "examples.test", "examples.schema",
			"examples.partitions"}, key)
	})
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, schemas.Setting{Key: key, Digest: all[key]})
	}
	return list
}

// addSettings adds the fields of a struct, with a prefix before their names.
func addSettings(all map[string]string, prefix string, of reflect.Value) {
	for key, value := range option.Values(of) {
		addSetting(all, prefix+key, value)
	}
}

// addSetting adds a value: a struct by its fields, unless it is one value in the configuration.
func addSetting(all map[string]string, key string, of reflect.Value) {
	_, whole := of.Interface().(json.Marshaler)
	switch {
	case of.Kind() == reflect.Struct && !whole:
		addSettings(all, key+".", of)
	case !of.IsZero() && !(of.Kind() == reflect.Slice && of.Len() == 0):
		all[key] = wire.DigestJSON(of.Interface()).Short()
	}
}

// RetrainOptions configure when a chain of versions continues, and how: the keys under `retrain`.
type RetrainOptions struct {
	Rows         int64         // number of new rows of an update
	After        time.Duration // or time after the first of them; 0: unlimited
	Window       WindowOptions
	Decay        float64 // factor of past increments at each update
	Refresh      int     // number of past increments that an update revisits
	Passes       int     // passes over the rows of an update
	Full         FullOptions
	OnNewClass   string
	NewClassRows int64
	Gate         GateOptions
	AcceptLoss   bool // offer versions that have learnt fewer rows because the log has lost some
}

// WindowOptions limit the window. The zero value keeps all examples of the chain.
type WindowOptions struct {
	Rows       int64
	Time       time.Duration
	Increments int
}

// FullOptions configure when a version is fitted to the whole window.
type FullOptions struct {
	Every  int     // number of updates in between; 0: unlimited
	Growth float64 // growth factor of the window in between; 0: unlimited
	Drift  bool    // after a change of the stream
}

// GateOptions configure when a version is offered to subscribers.
type GateOptions struct {
	Split  string  // split whose loss is compared
	Margin float64 // by how much the loss may be worse
}

// Actions for labels that are not among the classes.
const (
	NewClassFull       = "full"
	NewClassQuarantine = "quarantine"
	NewClassStop       = "stop"
)

// DefaultRetrain returns the options of an empty configuration.
func DefaultRetrain() RetrainOptions {
	return RetrainOptions{
		Rows: 10_000, After: 10 * time.Minute, Decay: 1, Refresh: 4, Passes: 2, Full: FullOptions{Every: 1000, Growth: 2, Drift: true},
		OnNewClass: NewClassFull, NewClassRows: 100, Gate: GateOptions{Split: examples.Holdout.String(), Margin: 0.002},
	}
}

// EnoughGateRows is the number of rows with which the gate withholds nine of ten versions that are worse by a tenth of
// their loss. Measured: TestGateWithholdsBeyondChance of package solver.
const EnoughGateRows = 1000

// GateRows returns the approximate number of rows for the gate of an update, given the holdout fraction; 0 if the gate
// does not use it.
func (o *RetrainOptions) GateRows(holdout float64) int64 {
	if o.Gate.Split != examples.Holdout.String() {
		return 0
	}
	visited := 1 + o.Refresh
	if o.Window.Increments > 0 {
		visited = min(visited, o.Window.Increments)
	}
	return int64(math.Round(holdout * float64(o.Rows) * float64(visited)))
}

// RetrainKeys is the table of the keys under `retrain` of the configuration, in the order of the documentation.
func RetrainKeys() []option.Key {
	isTime := option.Range(0, math.MaxInt64, "a time of at least 0")
	return []option.Key{
		{Name: "rows", Rule: option.Whole(1, 0),
			Meaning: "number of new rows that trigger an update, and of rows in each update of a backlog"},
		{Name: "after", Rule: isTime,
			Meaning: "maximum time from the first new row to the update; 0: only `rows` triggers updates"},
		{Name: "window.rows", Rule: option.Whole(0, 0),
			Meaning: "number of newest rows that a version is fitted to; 0: all since the chain began"},
		{Name: "window.time", Rule: isTime,
			Meaning: "maximum age of these rows, by the timestamps of their messages; 0: any"},
		{Name: "window.increments", Rule: option.Whole(0, 0),
			Meaning: "maximum number of updates that these rows come from; 0: any"},
		{Name: "decay", Rule: option.Range(math.SmallestNonzeroFloat64, 1, "a number above 0, and at most 1"),
			Meaning: "factor that multiplies the weights of past rows at each update"},
		{Name: "refresh", Rule: option.Whole(0, 0),
			Meaning: "number of past increments that an update visits again"},
		{Name: "passes", Rule: option.Whole(1, 1000),
			Meaning: "passes of an update over the rows that it visits, for each stage"},
		{Name: "full.every", Rule: option.Whole(0, 0),
			Meaning: "number of updates after which a full version is fitted to the whole window; 0: never"},
		{Name: "full.growth", Rule: option.Rule{Want: "0, or a number above 1",
			Holds: func(v any) bool { return v.(float64) == 0 || v.(float64) > 1 }},
			Meaning: "fit a full version also when the window has grown by this factor since the last one; 0: never"},
		{Name: "full.drift", Meaning: "fit a full version also on drift of the stream, and drop the rows before the drift"},
		{Name: "on_new_class", Rule: option.OneOf(NewClassFull, NewClassQuarantine, NewClassStop),
			Meaning: "how to handle a label that is not a class: `full` fits a full version, `quarantine` leaves " +
				"its rows out, `stop` ends the run"},
		{Name: "new_class_rows", Rule: option.Whole(1, 0),
			Meaning: "minimum number of rows that make a label a class"},
		{Name: "gate.split", Rule: option.OneOf(examples.Holdout.String(), examples.Test.String()),
			Meaning: "the split whose loss decides whether subscribers get a version: holdout or test"},
		{Name: "gate.margin", Rule: option.Range(0, math.Inf(1), "a number of at least 0"),
			Meaning: "margin by which that loss may exceed the loss of the offered version on the same rows, beyond " +
				"random variation"},
		{Name: "accept_loss", Meaning: "offer a version with fewer rows than the offered one also if the log has lost the others, for " +
			"example by retention during an outage"},
	}
}

// Updatable reports whether updates can continue from a version with these stages: not with learnt links, or blocks that
// depend on earlier weights.
func Updatable(stages []schemas.Stage) bool { return AlwaysFull(stages) == "" }

// StateSize is the size of a chain's state on the state topic in bytes.
type StateSize struct {
	Increment  int64 // terms of an increment: two p × k matrices for each stage
	Grams      int64 // Gram matrices: p(p+1)/2 numbers for each stage
	Increments int64 // maximum number of increments in the window; 0: unlimited
}

// Total returns the size of the Gram matrices and of all increments, or of one increment if the window is unlimited.
func (s StateSize) Total() int64 { return s.Grams + max(s.Increments, 1)*s.Increment }

// StateSize returns the state size of a chain with the given numbers of columns (p) of its stages and of classes (k), in
// float64.
func (o RetrainOptions) StateSize(columns []int, classes int) (s StateSize) {
	for _, p := range columns {
		s.Increment += 2 * 8 * int64(p) * int64(classes)
		s.Grams += 8 * int64(p) * int64(p+1) / 2
	}
	s.Increments = int64(o.Window.Increments)
	if o.Window.Rows > 0 {
		// The oldest increment leaves when the others have the rows. Each has as many rows as an update, or more.
		if n := (o.Window.Rows+o.Rows-1)/o.Rows + 1; s.Increments == 0 || n < s.Increments {
			s.Increments = n
		}
	}
	return s
}

// AlwaysFull returns the reason why every version of a chain with these stages is full; "" if versions can be updates.
func AlwaysFull(stages []schemas.Stage) string {
	for t, s := range stages {
		switch {
		case s.Scores:
			return fmt.Sprintf("stage %d has scores: true", t)
		case link.Named(s.Link).Learnt:
			return fmt.Sprintf("stage %d has the link %s", t, s.Link)
		}
	}
	return ""
}
