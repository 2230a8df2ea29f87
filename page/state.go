package page

import "github.com/stagewise/stagewise/schemas"

// State is what the page shows, as JSON. Times are in milliseconds since 1970, errors in percent. Each field is a section: it is sent to
// browsers when it has changed.
type State struct {
	Summary    Summary    `json:"summary"`
	Topics     []Topic    `json:"topics"` // in the order of the flow
	Run        *Run       `json:"run"`    // the current one, or else the last; nil: none is known
	Versions   []Version  `json:"versions"`
	Quality    *Quality   `json:"quality"` // of the version that subscribers get; nil: there is none, or it has no report
	Staff      Staff      `json:"staff"`
	Quarantine Quarantine `json:"quarantine"`
}

// Level says how urgent something is.
type Level string

// The levels, from the least urgent.
const (
	Good    Level = "good"
	Notice  Level = "notice"  // an operator should look at it
	Trouble Level = "trouble" // an operator must act
)

// Summary answers what an operator asks first.
type Summary struct {
	Pipeline string `json:"pipeline"`
	Brokers  string `json:"brokers"` // their addresses, or what else it reads
	Level    Level  `json:"level"`   // the most urgent of Needs
	Verdict  string `json:"verdict"` // in a sentence
	Needs    []Need `json:"needs"`   // the most urgent first
	Facts    []Fact `json:"facts"`
}

// Need is a problem for an operator.
type Need struct {
	Level Level  `json:"level"`
	Text  string `json:"text"`
	About string `json:"about"` // the part of the page that has more
}

// Fact is the answer to a question.
type Fact struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Detail   string `json:"detail,omitempty"`
	When     string `json:"when,omitempty"` // what happened at Since
	Since    int64  `json:"since,omitempty"`
	About    string `json:"about"` // the part of the page that has more
}

// Topic is a topic of the pipeline.
type Topic struct {
	Role       string    `json:"role"` // its name without the pipeline's
	Name       string    `json:"name"`
	Partitions int       `json:"partitions"` // 0: it does not exist
	Held       int64     `json:"held"`       // offsets from its first message to its end
	Rate       float64   `json:"rate"`       // messages a second, lately
	Rates      []float64 `json:"rates"`      // at the last polls, oldest first
	Lag        *int64    `json:"lag"`        // what of it others have still to do; nil: nobody has to do anything, or that is not known
	Behind     string    `json:"behind"`     // what Lag counts
}

// Run is the current run, or the last one.
type Run struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`              // full or update, of a chain; train
	Version int    `json:"version,omitempty"` // that it has made
	State   string `json:"state"`             // waiting, running, or how it ended
	Reason  string `json:"reason,omitempty"`  // why it failed or was cancelled
	Waits   string `json:"waits"`             // what it waits for
	News    int64  `json:"news"`              // when the last message of it was written, or it ended
	Stage   int    `json:"stage"`             // that is due; schemas.Survey; the number of stages if none is left
	Visit   int    `json:"visit"`             // that is due
	Sealing bool   `json:"sealing"`           // the residuals of the stage before are due first
	Of      int    `json:"of"`                // partitions that the visit has
	Have    int    `json:"have"`              // partitions whose part of it is published
	Missing []int  `json:"missing"`           // the first of the others
	Stages  []Step `json:"stages"`
	// Queue are the runs that wait behind it, the first few. Queued is their number.
	Queue  []string `json:"queue"`
	Queued int      `json:"queued"`
}

// Step is a stage of a run.
type Step struct {
	Stage   int                  `json:"stage"`            // from 0
	Member  int                  `json:"member,omitempty"` // of a run that averages: the member that the stage belongs to, from 1
	Link    schemas.Link         `json:"link"`
	Block   string               `json:"block"`            // its features, in words
	Most    int                  `json:"most"`             // passes that it may take
	Done    *schemas.StageReport `json:"done,omitempty"`   // once it has ended
	Passes  []schemas.PassReport `json:"passes,omitempty"` // that have ended, until the stage ends
	Planned bool                 `json:"planned"`          // it has not begun
}

// Version is a version.
type Version struct {
	Version          int      `json:"version"`
	Run              string   `json:"run"`
	Written          int64    `json:"written"`
	Kind             string   `json:"kind"` // as of a Run
	Parent           string   `json:"parent,omitempty"`
	Rows             int64    `json:"rows"` // training rows; of an update those that are new
	TrainError       *float64 `json:"train_error"`
	HoldoutError     *float64 `json:"holdout_error"`
	TestError        *float64 `json:"test_error"`
	PrequentialError *float64 `json:"prequential_error"`
	ServedError      *float64 `json:"served_error"` // of what it has answered for rows that have their label by now
	ServedRows       int64    `json:"served_rows"`  // these rows
	Offered          bool     `json:"offered"`
	Pinned           bool     `json:"pinned"`
	Latest           bool     `json:"latest"` // subscribers get it
	Drift            bool     `json:"drift,omitempty"`
	MostlyBad        bool     `json:"mostly_bad,omitempty"`
	UnknownRows      int64    `json:"unknown_rows,omitempty"`
	AtLeast          int64    `json:"at_least,omitempty"` // number of rows, if it is withheld because it has learnt fewer
	Seconds          float64  `json:"seconds"`
	Digest           string   `json:"digest"` // the first digits of that of its weights
}

// Quality is how good the predictions of a version are.
type Quality struct {
	Version int      `json:"version"`
	Split   string   `json:"split"`  // whose rows are counted
	Before  bool     `json:"before"` // the rows were predicted before they were learnt
	Labels  []string `json:"labels"`
	schemas.SplitReport
	// Pairs are the classes that are confused most, if there are too many for a matrix.
	Pairs []Pair `json:"pairs,omitempty"`
	// Curve is the error of the version's rows before they were learnt, in the order in which they came.
	Curve []CurvePoint `json:"curve,omitempty"`
}

// CurvePoint is the error of rows that came after each other.
type CurvePoint struct {
	Rows  int64   `json:"rows"`  // up to the last of them, from the first of the version
	Error float64 `json:"error"` // percent
}

// Pair is rows of one class that are predicted as another.
type Pair struct {
	Label     string `json:"label"`
	Predicted string `json:"predicted"`
	Rows      int64  `json:"rows"`
}

// Staff are the processes of a pipeline.
type Staff struct {
	Embedded bool     `json:"embedded"` // the brokers are those of a process, which may work too, as a member of no group
	Unknown  string   `json:"unknown"`  // why the rest is not known
	Hidden   []string `json:"hidden"`   // roles whose processes brokers do not show to this page
	// Members are the processes by role, the name of their command. They are not known for roles in Hidden.
	Members map[string][]Worker `json:"members"`
}

// Worker is a member of a group.
type Worker struct {
	ID         string `json:"id"`
	Host       string `json:"host"`
	Partitions []int  `json:"partitions"`
	Have       int    `json:"have"`  // of them, those whose part of the visit that is due is published
	Waits      string `json:"waits"` // what it does, or waits for
}

// Quarantine is the messages that could not be used.
type Quarantine struct {
	Held    int64        `json:"held"`    // messages on the topic
	Read    int64        `json:"read"`    // of them, the newest, whose reasons are counted
	Reasons []Reason     `json:"reasons"` // one for each kind of those that were read, the most frequent first
	Recent  []BadMessage `json:"recent"`  // the newest first
}

// Reason is why messages could not be used. Messages that differ only in their values have one.
type Reason struct {
	Reason   string `json:"reason"` // of the newest of them
	Messages int    `json:"messages"`
	Last     int64  `json:"last"` // when the last of them came
}

// BadMessage is a message that could not be used.
type BadMessage struct {
	At        int64  `json:"at"`
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	Bytes     int    `json:"bytes"`
	Reason    string `json:"reason"`
}
