package layout

import (
	"strconv"

	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Options are the keys under `examples` of the configuration that configure the columns of rows, and how values are read. Start from
// Defaults: the zero value has no rows in a batch.
type Options struct {
	// Label and Weight are columns. Without Label, the label is column 0 of CSV,
	// and otherwise the column "label"; without Weight, every example weighs 1.
	Label  Column `mapstructure:"label" yaml:"label"`
	Weight Column `mapstructure:"weight" yaml:"weight"`
	// Served are the columns of what a server answered for a row, of a topic that
	// ingest follows.
	Served ServedColumns `mapstructure:"served" yaml:"served"`
	// Text is a column of texts, whose words become features as Words says; "": none.
	Text  Column             `mapstructure:"text" yaml:"text"`
	Words vocabulary.Options `mapstructure:"words" yaml:"words"`
	// Labels is the number of labels of an example: LabelsOne, which "" is too, or
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
	// Encoding is that of files of text, and of the values of a topic; "": UTF-8.
	Encoding string `mapstructure:"encoding" yaml:"encoding"`
	// Columns selects the columns that become features; the zero value: all but those of
	// the label and the weight.
	Columns ColumnChoice `mapstructure:"columns" yaml:"columns"`
	// Categorical are columns of words. Each becomes a feature for each of the
	// words that it has in Train, and one for all others.
	Categorical []string `mapstructure:"categorical" yaml:"categorical"`
	// Times are columns of dates and times. Each becomes a feature for each of the
	// parts that are listed for it.
	Times Times `mapstructure:"times" yaml:"times"`
	// Offsets are what the numbers of columns are less before they become float32;
	// of a column that they don't name the first rows of files say it.
	Offsets Offsets `mapstructure:"offsets" yaml:"offsets"`
	// Classes are the labels that are allowed; none: all labels are.
	Classes []string `mapstructure:"classes" yaml:"classes"`
	// Missing configures the handling of a missing value, which is an empty field of a
	// file or a null in a message: MissingError or MissingMean.
	Missing string `mapstructure:"missing" yaml:"missing"`
	// MissingValues are words for a missing value, in addition to an empty
	// field. In a file with types they are looked for in columns of words.
	MissingValues []string `mapstructure:"missing_values" yaml:"missing_values"`
	// Image is the shape of examples that are images: height, width and channels,
	// where 2 numbers mean one channel. None: the file says it, or they are no images.
	Image []string `mapstructure:"image" yaml:"image"`
	// BatchRows is the maximum number of examples in a message, at least 1. A
	// message of wide examples has fewer, so that it does not exceed
	// schemas.MaxMessage.
	BatchRows int `mapstructure:"batch_rows" yaml:"batch_rows"`

	categories map[string][]string // of the columns under Categorical, by their names; they are found in the files to train on
	offsets    Offsets             // of columns whose numbers float32 does not hold; found there too
	learnt     *Learnt             // rows that a chain has learnt before; nil: none
	unlabelled bool                // the label is not read, as it is in order or its trouble is known
	later      bool                // the label, or the targets, come from another message: columns that messages lack have them
	predicts   bool                // rows to predict are read, and flags set what keys set elsewhere
	needsDense bool                // the stages need dense rows
	counting   string              // the key of a stage that counts what occurs in rows
	hash       Hash                // of the columns under Categorical
	extent     Extent              // of sparse rows that become dense; zero: none do
}

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{Labels: LabelsOne, Missing: MissingError, MissingValues: DefaultMissingValues(), BatchRows: 1024,
		Words: vocabulary.Defaults()}
}

// ServedColumns are the columns of what a server answered for a row: both or neither.
type ServedColumns struct {
	Label   Column `mapstructure:"label" yaml:"label"`     // the label that it gave the row
	Version Column `mapstructure:"version" yaml:"version"` // the number of the version that did
}

// ColumnChoice selects the columns that become features, by their numbers or names.
type ColumnChoice struct {
	Use  []string `mapstructure:"use" yaml:"use"`   // these; none: all that are not dropped
	Drop []string `mapstructure:"drop" yaml:"drop"` // not these
}

// DefaultMissingValues are the words for a missing value in data frames and
// spreadsheets.
func DefaultMissingValues() []string { return value.Usual() }

const (
	MissingError = "error" // Options.Missing: a missing value is an error
	MissingMean  = "mean"  // Options.Missing: the mean of the feature replaces a missing value
)

// Shape returns the shape that Image gives; zero if it gives none.
func (o Options) Shape() examples.Image {
	shape := examples.Image{0, 0, 1}
	if n := len(o.Image); n != 2 && n != 3 {
		return examples.Image{}
	}
	for i, text := range o.Image {
		n, err := strconv.Atoi(text)
		if err != nil {
			return examples.Image{}
		}
		shape[i] = n
	}
	if _, err := examples.ParseImage(shape.Text()); err != nil {
		return examples.Image{}
	}
	return shape
}

// Column names a column by its number, from 0, or by its name in the header. A
// text that can be read as a number is a number. The zero value names none.
type Column string

// Number returns the column's number. ok is false if the column is given by
// its name, or not at all.
func (c Column) Number() (n int, ok bool) {
	n, err := strconv.Atoi(string(c))
	return n, err == nil
}

// IsName reports whether the column is given by its name.
func (c Column) IsName() bool {
	_, ok := c.Number()
	return c != "" && !ok
}

// Key returns the name of a key for people: a flag of predict, or under examples.
func (o Options) Key(name string) string {
	if o.predicts {
		return "--" + name
	}
	return "examples." + name
}

// ToPredict returns the options for rows to predict, without labels and weights.
func (o Options) ToPredict() Options {
	o.predicts = true
	return o
}

// Predicts reports whether rows to predict are read.
func (o Options) Predicts() bool { return o.predicts }

// WithoutLabel returns the options that leave the label out of rows to train on.
func (o Options) WithoutLabel() Options {
	o.unlabelled = true
	return o
}

// WithLabelLater returns the options for rows whose labels or targets come from other messages. They have a column for the label, or for
// each target, that no message has: the first of columns with names, the last of others.
func (o Options) WithLabelLater() Options {
	o.later, o.LabelColumns = true, nil
	return o
}

// LabelComesLater reports whether the label of a row, or its targets, come from another message.
func (o Options) LabelComesLater() bool { return o.later }

// LeavesLabelOut reports whether the label of rows to train on is left out.
func (o Options) LeavesLabelOut() bool { return o.unlabelled }
