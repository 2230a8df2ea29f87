package page

import "github.com/stagewise/stagewise/schemas"

// State is the content of the page, as JSON. Times are in milliseconds since 1970, errors in percent. Each field is a section: it is
// sent to browsers when it has changed.
type State struct {
	Summary    Summary    `json:"summary"`
	Topics     []Topic    `json:"topics"` // in the order of the flow
	Run        *Run       `json:"run"`    // the current one, or else the last; nil: none is known
	Versions   []Version  `json:"versions"`
	Quality    *Quality   `json:"quality"` // of the version that subscribers get; nil: there is none, or it has no report
	Staff      Staff      `json:"staff"`
	Quarantine Quarantine `json:"quarantine"`
}

// Level is the urgency of a problem.
type Level string

// The levels, from the least urgent.
const (
	Good    Level = "good"
	Notice  Level = "notice"  // an operator should look at it
	Trouble Level = "trouble" // an operator must act
)

// Summary answers the first questions of an operator.
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
	Rates      []float64 `json:"rates"`      // at the last polls, oldest first; never changed
	Lag        *int64    `json:"lag"`        // backlog of its readers; nil: it has no readers, or the backlog is unknown
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
	Stage   int    `json:"stage"`             // that is due, or schemas.Survey; the number of stages if none is left
	Visit   int    `json:"visit"`             // that is due
	Sealing bool   `json:"sealing"`           // the residuals of the stage before are due first
	Of      int    `json:"of"`                // partitions that the visit has
	Have    int    `json:"have"`              // partitions whose part of it is published
	Missing []int  `json:"missing"`           // the first of the other partitions
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
	Most    int                  `json:"most"`             // maximum number of passes
	Done    *schemas.StageReport `json:"done,omitempty"`   // once it has ended
	Passes  []schemas.PassReport `json:"passes,omitempty"` // that have ended, until the stage ends
	Planned bool                 `json:"planned"`          // it has not begun
}

// Version describes a version: its report in a chain, without spans and curve, or what is known of a run outside a chain.
type Version struct {
	schemas.RetrainReport
	Run         string   `json:"run"`
	Written     int64    `json:"written"`
	Parent      string   `json:"parent,omitempty"`
	TrainError  *float64 `json:"train_error"`
	TestError   *float64 `json:"test_error"`
	ServedError *float64 `json:"served_error"` // of its served answers for rows whose labels are known
	ServedRows  int64    `json:"served_rows"`  // these rows
	Pinned      bool     `json:"pinned"`
	Latest      bool     `json:"latest"` // subscribers get it
	Digest      string   `json:"digest"` // the first digits of the digest of its weights
}

// Quality measures the predictions of a version.
type Quality struct {
	Version int      `json:"version"`
	Split   string   `json:"split"`  // whose rows are counted
	Before  bool     `json:"before"` // the rows were predicted before they were learnt
	Labels  []string `json:"labels"`
	schemas.SplitReport
	// Pairs are the classes that are confused most, if there are too many for a matrix.
	Pairs []Pair `json:"pairs,omitempty"`
	// Curve is the error of the version's rows before they were learnt, in order of arrival.
	Curve []CurvePoint `json:"curve,omitempty"`
}

// CurvePoint is the error of consecutive rows.
type CurvePoint struct {
	Rows  int64   `json:"rows"`  // number of rows from the first of the version to the last of these
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
	Embedded bool     `json:"embedded"` // the broker is embedded in a process, which may work too, without joining a group
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
	Waits      string `json:"waits"` // what it does, or waits for
}

// Quarantine describes the unusable messages.
type Quarantine struct {
	Held    int64        `json:"held"`    // messages on the topic
	Read    int64        `json:"read"`    // of them, the newest, whose reasons are counted
	Reasons []Reason     `json:"reasons"` // one for each kind of the messages read, the most frequent of them first
	Recent  []BadMessage `json:"recent"`  // the newest first
}

// Reason is the reason for unusable messages. Messages that differ only in their values have the same reason.
type Reason struct {
	Reason   string `json:"reason"` // of the newest of them
	Messages int    `json:"messages"`
	Last     int64  `json:"last"` // when the last of them came
}

// BadMessage is an unusable message.
type BadMessage struct {
	At        int64  `json:"at"`
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	Bytes     int    `json:"bytes"`
	Reason    string `json:"reason"`

	kind string // the reason without values
}
