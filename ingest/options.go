package ingest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest/archive"
	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Options are the keys under `examples` of the configuration: [Keys] says what each means. Start from Defaults: the zero value has no
// partitions and does not pass Check.
type Options struct {
	Train           []string        `yaml:"train" path:"file"` // names and patterns: see Files. The files of a source are adjacent
	Test            []string        `yaml:"test" path:"file"`
	FromTopic       string          `yaml:"from_topic"`
	Archive         archive.Options `yaml:"archive"`
	OnChangedTopic  string          `yaml:"on_changed_topic"` // ChangedTopicStop, or "", ChangedTopicBehind or ChangedTopicAnew
	Topic           string          `yaml:"topic"`
	From            []string        `yaml:"from" single:"true"` // see ParseBound
	To              []string        `yaml:"to" single:"true"`
	Format          string          `yaml:"format"`
	format.Settings ` yaml:",inline"`
	Registry        typed.Registry  `yaml:"registry"`
	JoinKey         string          `yaml:"key"`
	Outcome         outcome.Options `yaml:"outcome"`
	layout.Options  ` yaml:",inline"`
	// The workers apply these when they read examples.
	ClassWeight schemas.ClassWeight `yaml:"class_weight"`
	Augment     schemas.Augment     `yaml:"augment"`
	Holdout     float64             `yaml:"holdout"`
	// Partitions is part of source IDs, because it determines the partitions of messages.
	Partitions int `yaml:"partitions"`
	// Once is set for a topic that is trained on as a whole, regardless of the named files: no row may be written to it twice.
	Once bool `yaml:"-"`

	parts   map[string][]input.Partition // partition values of tables in directories of Train and Test; the tables may be empty
	spooled *os.File                     // copy of the standard input; nil: not read
}

// maxShift is the maximum of Augment.Shift: an example becomes 1 + 4·Shift rows, or twice as many.
const maxShift = 8

const (
	ChangedTopicStop   = "stop"   // Options.OnChangedTopic: return an error
	ChangedTopicBehind = "behind" // Options.OnChangedTopic: continue after the last message read, or at the current end of the topic
	ChangedTopicAnew   = "anew"   // Options.OnChangedTopic: read it from the start, as another topic
)

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{Archive: archive.Defaults(), OnChangedTopic: ChangedTopicStop, Partitions: 4, Options: layout.Defaults(),
		Outcome: outcome.Defaults()}
}

// DefaultSeveralHoldout is the default holdout fraction for multi-label training rows: thresholds and calibrations need
// rows to which the weights were not fitted.
const DefaultSeveralHoldout = 0.2

// Task returns the prediction task of models of the examples.
func (o Options) Task() examples.Task {
	return (&schemas.Plan{Targets: o.Targets, Labels: o.PlanLabels()}).Task()
}

// ReadsRows reports whether there are files, or a topic of values, whose rows become examples.
func (o Options) ReadsRows() bool { return len(o.Train)+len(o.Test) > 0 || o.FromTopic != "" }

// Values of the key `rows` for the density of rows. Any other value is a path.
const (
	rowsAuto   = "auto"   // sparse rows are converted to dense ones if a stage needs that, and they have at most maxDense columns
	rowsDense  = "dense"  // they are converted to dense ones
	rowsSparse = "sparse" // they stay sparse
)

// maxDense is the maximum number of columns for the conversion of sparse rows without an explicit setting.
const maxDense = 10_000

// density returns one of these values: "auto" for a path.
func (o Options) density() string {
	if o.Rows == rowsDense || o.Rows == rowsSparse {
		return o.Rows
	}
	return rowsAuto
}

// rowsPath returns the path of the rows in a message; "": none. A member with the name of a density is written as
// ./dense.
func (o Options) rowsPath() string {
	switch o.Rows {
	case rowsAuto, rowsDense, rowsSparse:
		return ""
	}
	return strings.TrimPrefix(o.Rows, "./")
}

// Bound is the start or the end of a run on a topic. Offsets has an offset for each partition, or one for all of them.
// Without offsets, the bound is the first message of each partition with this timestamp or a later one.
type Bound struct {
	Time    time.Time
	Offsets []int64
}

// ParseBound parses the values of examples.from or examples.to: a time as in RFC 3339, or offsets. ok is false if they are
// invalid.
func ParseBound(values []string) (b Bound, ok bool) {
	for _, value := range values {
		if t, err := time.Parse(time.RFC3339Nano, value); err == nil && len(values) == 1 {
			return Bound{Time: t}, true
		}
		offset, err := strconv.ParseInt(value, 10, 64)
		if err != nil || offset < 0 {
			return Bound{}, false
		}
		b.Offsets = append(b.Offsets, offset)
	}
	return b, len(values) > 0
}

// On returns the offset for a partition, for a bound with offsets.
func (b Bound) On(partition int) int64 {
	if len(b.Offsets) == 1 {
		return b.Offsets[0]
	}
	return b.Offsets[partition]
}

// Before reports whether a bound is before another one on some partition, as far as they are comparable.
func (b Bound) Before(o Bound) bool {
	switch {
	case (b.Offsets == nil) != (o.Offsets == nil):
		return true // the timestamps of messages decide
	case b.Offsets == nil:
		return b.Time.Before(o.Time)
	}
	for partition := range max(len(b.Offsets), len(o.Offsets)) {
		if len(b.Offsets) != 1 && len(o.Offsets) != 1 && len(b.Offsets) != len(o.Offsets) {
			return true // the number of partitions makes one of them invalid
		}
		if b.On(partition) < o.On(partition) {
			return true
		}
	}
	return false
}

// Input returns a plan's description of how files and topics were read.
func (o Options) Input() schemas.Input {
	input := schemas.Input{
		Format: o.Format, Label: string(o.Label), Weight: string(o.Weight), LabelColumns: o.LabelColumns, Header: o.Header,
		Delimiter: o.Delimiter, Encoding: o.Encoding,
		Use: o.Columns.Use, Drop: o.Columns.Drop, Categorical: o.Categorical, Times: o.Times.Parts(),
		Image: o.Shape(),
	}
	if o.Text != "" {
		input.Text, input.WordColumns, input.WordPhrases = string(o.Text), o.Words.Columns, o.Words.Phrases
		input.Vocabulary = o.Words.Counted()
	}
	if h := o.Hashes(); h.Columns > 0 {
		input.Hash = &schemas.Hash{Columns: int(h.Columns), Cross: h.Cross}
	}
	if e := o.Found.Extent; e.Width > 0 {
		input.FirstIndex = &e.First
	}
	if o.FromTopic != "" {
		input.Format = "" // the format of values: files to predict have their own
	}
	if !slices.Equal(o.MissingValues, value.Usual()) {
		if input.MissingValues = o.MissingValues; len(o.MissingValues) == 0 {
			input.MissingValues = []string{""} // always missing: an empty list would mean the defaults
		}
	}
	return input
}
