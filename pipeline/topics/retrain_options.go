package topics

import (
	"math"
	"time"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
