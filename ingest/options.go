package ingest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/ingest/paths"
	"github.com/stagewise/stagewise/ingest/registry"
	"github.com/stagewise/stagewise/internal/charset"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Options are the keys under `examples` of the configuration. Start from Defaults: the zero value has no partitions and
// does not pass Check.
type Options struct {
	// Train and Test are file names and patterns: see Files. The files of one source are adjacent, such as images and labels
	// in idx. None: the topic already has the examples. One of them may be StandardInput: see Spool.
	Train []string `yaml:"train" path:"file"`
	Test  []string `yaml:"test" path:"file"`
	// FromTopic is the name of a topic that ingest follows, with values in the format Format; "": none. It excludes files.
	FromTopic string `yaml:"from_topic"`
	// OnChangedTopic is the action if FromTopic no longer has the last message that was read: ChangedTopicStop, or "",
	// ChangedTopicBehind or ChangedTopicAnew.
	OnChangedTopic string `yaml:"on_changed_topic"`
	// Topic is the name of a topic that runs read: the examples of another pipeline, or any topic with examples. Nothing is
	// written there; "": the pipeline's own. It excludes files.
	Topic string `yaml:"topic"`
	// From and To limit the range of the topic that a run reads: see package bound. None: the whole topic.
	From []string `yaml:"from" single:"true"`
	To   []string `yaml:"to" single:"true"`
	// Format is the name of the files' format; "": determined by each file's name, or else its first bytes.
	Format string `yaml:"format"`
	// The contents of the messages of FromTopic.
	message.Settings ` yaml:",inline"`
	// Registry has the schemas of the messages of FromTopic.
	Registry registry.Options `yaml:"registry"`
	// JoinKey is the path in the messages of FromTopic of the key by which outcomes are joined; "": the message key.
	JoinKey string `yaml:"key"`
	// Outcome configures labels that arrive later, on another topic.
	Outcome outcome.Options `yaml:"outcome"`
	// The roles of columns, and how rows are read.
	layout.Options ` yaml:",inline"`
	// ClassWeight has the factors of the weights of training examples, by label. It does not affect the published examples.
	ClassWeight schemas.ClassWeight `yaml:"class_weight"`
	// Augment configures the augmentation of image examples in training. It does not affect the published examples.
	Augment Augment `yaml:"augment"`
	// Holdout is the fraction of the training examples that are scored but not fitted, in [0, 1). It does not affect the
	// published examples: the workers select them when reading.
	Holdout float64 `yaml:"holdout"`
	// Partitions is the number of partitions of the examples topic, at least 1. It is part of source IDs, because it
	// determines the partitions of messages.
	Partitions int `yaml:"partitions"`

	digests map[string]wire.Digest       // of files that were read completely while finding them
	sizes   map[string]size              // of the same files
	parts   map[string][]input.Partition // partition values of tables in directories of Train and Test; the tables may be empty
	once    bool                         // see CountingOnce
	spooled *os.File                     // copy of the standard input; nil: not read
}

// Augment is schemas.Augment in the configuration.
type Augment struct {
	Mirror bool `yaml:"mirror"`
	Shift  int  `yaml:"shift"`
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
	return Options{OnChangedTopic: ChangedTopicStop, Partitions: 4, Options: layout.Defaults(), Outcome: outcome.Defaults()}
}

const wantCount = "a whole number ≥ 1"

// ReadsRows reports whether there are files, or a topic of values, whose rows become examples.
func (o Options) ReadsRows() bool { return len(o.Train)+len(o.Test) > 0 || o.FromTopic != "" }

// Check returns a Problem for each value that is invalid for any file content. It does not open the files.
func (o Options) Check() []option.Problem { return o.check(slices.Concat(o.Train, o.Test)) }

// check is Check for the files to read.
func (o Options) check(files []string) []option.Problem {
	var problems []option.Problem
	wrong := func(key string, value any, want string) {
		problems = append(problems, option.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	switch o.OnChangedTopic {
	case "", ChangedTopicStop, ChangedTopicBehind, ChangedTopicAnew:
	default:
		wrong("on_changed_topic", strconv.Quote(o.OnChangedTopic), "stop, behind or anew")
	}
	if o.FromTopic == "" {
		problems = append(problems, o.checkNoMessages()...)
	}
	if o.FromTopic != "" {
		problems = append(problems, o.checkFromTopic()...)
	} else if _, ok := o.formatByName(""); o.Format != "" && !ok {
		wrong("format", o.Format, wantFormat())
	} else {
		problems = append(problems, o.checkFiles("train", o.Train)...)
		problems = append(problems, o.checkFiles("test", o.Test)...)
	}
	if all := slices.Concat(o.Train, o.Test); len(slices.DeleteFunc(all, func(name string) bool { return name != StandardInput })) > 1 {
		key := "train"
		if slices.Contains(o.Test, StandardInput) {
			key = "test"
		}
		wrong(key, StandardInput, "the standard input (-) in one place only: it can be read once")
	}
	// The keys of all formats are checked, since the formats of files may only be known after opening them.
	if o.FromTopic == "" {
		problems = append(problems, o.checkColumns(o.formatsOf(files))...)
	}
	for _, f := range formats() {
		if f.Check == nil || o.FromTopic != "" {
			continue
		}
		for _, p := range f.Check(o.Options) {
			if !slices.Contains(problems, p) { // formats may share a key
				problems = append(problems, p)
			}
		}
	}
	problems = append(problems, o.checkOutcome()...)
	problems = append(problems, o.checkTopic()...)
	problems = append(problems, o.checkRows()...)
	problems = append(problems, o.checkText()...)
	known := map[string]bool{}
	for _, class := range o.Classes {
		if known[class] || class == "" || class != strings.TrimSpace(class) {
			wrong("classes", strconv.Quote(class), "distinct, non-empty labels without surrounding space")
		}
		known[class] = true
	}
	for label := range o.ClassWeight.By {
		isLabel := func(class string) bool { return value.Label(class) == value.Label(label) }
		if len(o.Classes) > 0 && !slices.ContainsFunc(o.Classes, isLabel) {
			wrong("class_weight", value.Quote(label), "labels that are among examples.classes")
		}
	}
	problems = append(problems, o.checkTargets(files)...)
	problems = append(problems, o.checkLabels(files)...)
	if o.Encoding != "" && !charset.Known(o.Encoding) {
		wrong("encoding", strconv.Quote(o.Encoding), "the name of an encoding, such as latin-1, windows-1252 or utf-16")
	}
	for _, c := range o.Missing.Columns {
		switch {
		case o.FromTopic == "":
			wrong("missing", value.Quote(c), "error or mean: columns only with examples.from_topic")
		case len(o.Columns.Use) > 0 && !slices.Contains(o.Columns.Use, c):
			wrong("missing", value.Quote(c), "columns that become features, and "+value.Quote(c)+" is none of examples.columns.use")
		}
	}
	if o.Missing.Mode != layout.MissingError && o.Missing.Mode != layout.MissingMean {
		wrong("missing", strconv.Quote(o.Missing.Mode), "error or mean")
	}
	if len(o.Image) > 0 && o.Shape() == (examples.Image{}) {
		wrong("image", fmt.Sprint(o.Image), "height, width and channels, each from 1 to 65536, such as [28, 28, 1]")
	}
	if o.Augment.Shift < 0 || o.Augment.Shift > maxShift {
		wrong("augment.shift", o.Augment.Shift, fmt.Sprintf("a whole number from 0 to %d", maxShift))
	}
	if !(o.Holdout >= 0 && o.Holdout < 1) { // also rejects NaN
		wrong("holdout", o.Holdout, "a fraction, at least 0 and less than 1")
	}
	if o.Partitions < 1 {
		wrong("partitions", o.Partitions, wantCount)
	}
	if o.BatchRows < 1 {
		wrong("batch_rows", o.BatchRows, wantCount)
	}
	return problems
}

// checkFiles checks the file names. Checks that need the content are left to Sources.
func (o Options) checkFiles(key string, files []string) []option.Problem {
	if slices.Contains(files, "") {
		return []option.Problem{{Key: key, Value: `""`, Want: "the name of a file"}}
	}
	if slices.ContainsFunc(files, paths.IsPattern) {
		return nil // the files are unknown
	}
	for rest := files; len(rest) > 0; {
		f, ok := o.formatByName(rest[0])
		if !ok {
			return nil // the number of files of a source is unknown too
		}
		if len(rest) < f.Files || slices.ContainsFunc(rest[1:f.Files], func(name string) bool {
			other, ok := o.formatByName(name)
			return ok && other.Name != f.Name
		}) {
			return []option.Problem{{Key: key, Value: fmt.Sprint(files), Want: f.Name + " " + f.WantFiles}}
		}
		rest = rest[f.Files:]
	}
	return nil
}
