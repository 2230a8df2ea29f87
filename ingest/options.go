package ingest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// Options are the keys under `examples` of the configuration. Start from
// Defaults: the zero value has no partitions and does not pass Check.
type Options struct {
	// Train and Test are names of files, and patterns: see Files. The files of one
	// source follow one another, as the images and the labels of idx do. None: the
	// topic already has the examples. One of them may be StandardInput: see Spool.
	Train []string `mapstructure:"train" yaml:"train" path:"file"`
	Test  []string `mapstructure:"test" yaml:"test" path:"file"`
	// FromTopic is the name of a topic that ingest follows, whose messages have
	// values in the format Format; "": none. There are no files then.
	FromTopic string `mapstructure:"from_topic" yaml:"from_topic"`
	// OnChangedTopic says what to do if FromTopic no longer has what was read last:
	// ChangedTopicStop, which "" is too, ChangedTopicBehind or ChangedTopicAnew.
	OnChangedTopic string `mapstructure:"on_changed_topic" yaml:"on_changed_topic"`
	// Topic is the name of a topic that runs read: the examples of another
	// pipeline, or any topic with examples. Nothing is written there; "": the
	// pipeline's own. There are no files otherwise.
	Topic string `mapstructure:"topic" yaml:"topic"`
	// From and To bound what a run reads of the topic: see Bound. None: all that
	// the topic has.
	From []string `mapstructure:"from" yaml:"from" single:"true"`
	To   []string `mapstructure:"to" yaml:"to" single:"true"`
	// Format is the name of the files' format; "": each file's name tells, or
	// else its first bytes.
	Format string `mapstructure:"format" yaml:"format"`
	// Label and Weight are columns. Without Label, the label is column 0 of CSV,
	// and otherwise the column "label"; without Weight, every example weighs 1.
	Label  Column `mapstructure:"label" yaml:"label"`
	Weight Column `mapstructure:"weight" yaml:"weight"`
	// Text is a column of texts, whose words become features as Words says; "": none.
	Text  Column `mapstructure:"text" yaml:"text"`
	Words Text   `mapstructure:"words" yaml:"words"`
	// Labels is how many labels an example may have: LabelsOne, which "" is too, or
	// LabelsSeveral.
	Labels string `mapstructure:"labels" yaml:"labels"`
	// LabelSeparator stands between the labels of a text; "": any of , ; and |.
	LabelSeparator string `mapstructure:"label_separator" yaml:"label_separator"`
	// LabelColumns are columns that have 1 in the rows with the label that the
	// column is called, and 0 in the others; none: one column has all labels.
	LabelColumns []string `mapstructure:"label_columns" yaml:"label_columns"`
	// Targets are columns of numbers that are predicted, in place of a label; none:
	// a label is.
	Targets []string `mapstructure:"targets" yaml:"targets"`
	// Header says whether the first row has the names of the columns; nil: it has
	// them if an option gives a column by its name.
	Header *bool `mapstructure:"header" yaml:"header"`
	// Delimiter is the character between the fields of a row; "": the first rows tell.
	Delimiter string `mapstructure:"delimiter" yaml:"delimiter"`
	// Columns says which columns become features; the zero value: all but those of
	// the label and the weight.
	Columns ColumnChoice `mapstructure:"columns" yaml:"columns"`
	// Categorical are columns of words. Each becomes a feature for each of the
	// words that it has in Train, and one for all others.
	Categorical []string `mapstructure:"categorical" yaml:"categorical"`
	// Classes are the labels that are allowed; none: all labels are.
	Classes []string `mapstructure:"classes" yaml:"classes"`
	// ClassWeight is by what the weights of training examples are multiplied, by
	// their label. It does not change what is published.
	ClassWeight schemas.ClassWeight `mapstructure:"class_weight" yaml:"class_weight"`
	// Missing says what to do with a missing value, which is an empty field of a
	// file or a null in a message: MissingError or MissingMean.
	Missing string `mapstructure:"missing" yaml:"missing"`
	// MissingValues are words that say that a value is missing, as an empty field
	// does. In a file with types they are looked for in columns of words.
	MissingValues []string `mapstructure:"missing_values" yaml:"missing_values"`
	// Image is the shape of examples that are images: height, width and channels,
	// where 2 numbers mean one channel. None: the file says it, or they are no images.
	Image []string `mapstructure:"image" yaml:"image"`
	// Augment says which rows a run makes of each training example that is an image.
	// It does not change what is published.
	Augment Augment `mapstructure:"augment" yaml:"augment"`
	// Holdout is the fraction of the training examples that are scored but not
	// fitted, in [0, 1). It does not change what is published: the workers choose
	// these examples when they read them.
	Holdout float64 `mapstructure:"holdout" yaml:"holdout"`
	// Partitions is the number of partitions of the examples topic, at least 1. It
	// is part of a source's ID, as it decides where the messages go.
	Partitions int `mapstructure:"partitions" yaml:"partitions"`
	// BatchRows is the maximum number of examples in a message, at least 1. A
	// message of wide examples has fewer, so that it does not exceed
	// schemas.MaxMessage.
	BatchRows int `mapstructure:"batch_rows" yaml:"batch_rows"`

	categories map[string][]string       // of the columns under Categorical, by their names; Sources finds them
	phrases    []string                  // of a counted vocabulary; Sources finds them too
	places     map[string]int32          // of each of them
	digests    map[string]schemas.Digest // of the files that were read whole to find them
	spooled    *os.File                  // what the standard input had; nil: it was not read
	predicts   bool                      // File reads rows to predict, and flags set what keys set elsewhere
}

// ColumnChoice says which columns become features, by their numbers or names.
type ColumnChoice struct {
	Use  []string `mapstructure:"use" yaml:"use"`   // these; none: all that are not dropped
	Drop []string `mapstructure:"drop" yaml:"drop"` // not these
}

// Augment is schemas.Augment as the configuration has it.
type Augment struct {
	Mirror bool `mapstructure:"mirror" yaml:"mirror"`
	Shift  int  `mapstructure:"shift" yaml:"shift"`
}

// maxShift bounds Augment.Shift: an example becomes 1 + 4·Shift rows, or twice as many.
const maxShift = 8

// DefaultMissingValues are the words that data frames and spreadsheets write for
// a missing value.
func DefaultMissingValues() []string {
	return []string{"NA", "N/A", "NaN", "nan", "null", "NULL"}
}

const (
	MissingError = "error" // Options.Missing: a missing value is an error
	MissingMean  = "mean"  // Options.Missing: the mean of the feature replaces a missing value
)

const (
	ChangedTopicStop   = "stop"   // Options.OnChangedTopic: it is an error
	ChangedTopicBehind = "behind" // Options.OnChangedTopic: go on behind what was read, or where the topic ends now
	ChangedTopicAnew   = "anew"   // Options.OnChangedTopic: read it from its beginning, as another topic
)

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{
		OnChangedTopic: ChangedTopicStop, Labels: LabelsOne, Missing: MissingError, MissingValues: DefaultMissingValues(), Partitions: 4, BatchRows: 1024, Words: DefaultText(),
	}
}

// Shape returns the shape that Image gives; zero if it gives none.
func (o Options) Shape() schemas.Image {
	shape := schemas.Image{0, 0, 1}
	if n := len(o.Image); n != 2 && n != 3 {
		return schemas.Image{}
	}
	for i, text := range o.Image {
		n, err := strconv.Atoi(text)
		if err != nil {
			return schemas.Image{}
		}
		shape[i] = n
	}
	if _, err := schemas.ParseImage(shape.Text()); err != nil {
		return schemas.Image{}
	}
	return shape
}

// Column names a column by its number, from 0, or by its name in the header. A
// text that can be read as a number is a number. The zero value names none.
type Column string

// number returns the column's number. ok is false if the column is given by
// its name, or not at all.
func (c Column) number() (n int, ok bool) {
	n, err := strconv.Atoi(string(c))
	return n, err == nil
}

// IsName reports whether the column is given by its name.
func (c Column) IsName() bool {
	_, ok := c.number()
	return c != "" && !ok
}

const wantCount = "a whole number ≥ 1"

// Check returns a Problem for each value that is impossible, whatever the files
// hold. It does not open the files.
func (o Options) Check() []schemas.Problem { return o.check(slices.Concat(o.Train, o.Test)) }

// key returns how people know a key: by a flag of predict, or under examples.
func (o Options) key(name string) string {
	if o.predicts {
		return "--" + name
	}
	return "examples." + name
}

// check is Check for the files that are to be read.
func (o Options) check(files []string) []schemas.Problem {
	var problems []schemas.Problem
	wrong := func(key string, value any, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	switch o.OnChangedTopic {
	case "", ChangedTopicStop, ChangedTopicBehind, ChangedTopicAnew:
	default:
		wrong("on_changed_topic", strconv.Quote(o.OnChangedTopic), "stop, behind or anew")
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
	// The keys of every format are checked: which formats the files have may be
	// known only when they are opened.
	if o.FromTopic == "" {
		problems = append(problems, o.checkColumns(o.formatsOf(files))...)
	}
	for _, f := range formats() {
		if f.check == nil || o.FromTopic != "" {
			continue
		}
		for _, p := range f.check(o) {
			if !slices.Contains(problems, p) { // formats may share a key
				problems = append(problems, p)
			}
		}
	}
	problems = append(problems, o.checkTopic()...)
	problems = append(problems, o.checkText()...)
	known := map[string]bool{}
	for _, class := range o.Classes {
		if known[class] || class == "" || class != strings.TrimSpace(class) {
			wrong("classes", strconv.Quote(class), "different labels, none of them empty, without space around them")
		}
		known[class] = true
	}
	for label := range o.ClassWeight.By {
		if len(o.Classes) > 0 && !known[label] {
			wrong("class_weight", quote(label), "labels that are among examples.classes")
		}
	}
	problems = append(problems, o.checkTargets(files)...)
	problems = append(problems, o.checkLabels(files)...)
	if o.Missing != MissingError && o.Missing != MissingMean {
		wrong("missing", strconv.Quote(o.Missing), "error or mean")
	}
	if len(o.Image) > 0 && o.Shape() == (schemas.Image{}) {
		wrong("image", fmt.Sprint(o.Image), "height, width and channels, each from 1 to 65536, such as [28, 28, 1]")
	}
	if o.Augment.Shift < 0 || o.Augment.Shift > maxShift {
		wrong("augment.shift", o.Augment.Shift, fmt.Sprintf("a whole number from 0 to %d", maxShift))
	}
	if !(o.Holdout >= 0 && o.Holdout < 1) { // also refuses NaN
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

// checkFiles checks the names of files. What only their content tells is left to
// Sources.
func (o Options) checkFiles(key string, files []string) []schemas.Problem {
	if slices.Contains(files, "") {
		return []schemas.Problem{{Key: key, Value: `""`, Want: "the name of a file"}}
	}
	if slices.ContainsFunc(files, isPattern) {
		return nil // which files there are is not known
	}
	for rest := files; len(rest) > 0; {
		f, ok := o.formatByName(rest[0])
		if !ok {
			return nil // how many files belong to this one is not known either
		}
		if len(rest) < f.files || slices.ContainsFunc(rest[1:f.files], func(name string) bool {
			other, ok := o.formatByName(name)
			return ok && other.name != f.name
		}) {
			return []schemas.Problem{{Key: key, Value: fmt.Sprint(files), Want: f.name + " " + f.wantFiles}}
		}
		rest = rest[f.files:]
	}
	return nil
}
