package layout

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Options are the keys under `examples` that configure the columns of rows, and how values are read: the table of keys of package ingest
// says what each means. Start from Defaults: the zero value has no rows in a batch.
type Options struct {
	Label          Column        `yaml:"label"` // "": column 0 of CSV, and otherwise the column "label"
	Weight         Column        `yaml:"weight"`
	Served         ServedColumns `yaml:"served"`
	Text           Column        `yaml:"text"`
	Words          WordOptions   `yaml:"words"`
	Labels         string        `yaml:"labels"` // LabelsOne, or "", or LabelsSeveral
	LabelSeparator string        `yaml:"label_separator"`
	LabelColumns   []string      `yaml:"label_columns"`
	Targets        []string      `yaml:"targets"`
	Header         *bool         `yaml:"header"`
	Delimiter      string        `yaml:"delimiter"`
	Encoding       string        `yaml:"encoding"`
	Columns        ColumnChoice  `yaml:"columns"`
	Categorical    []string      `yaml:"categorical"`
	Times          Times         `yaml:"times"`
	Offsets        Offsets       `yaml:"offsets"` // those of other columns are in Found
	Classes        []string      `yaml:"classes"`
	Missing        Missing       `yaml:"missing"`
	MissingValues  []string      `yaml:"missing_values"`
	Image          []string      `yaml:"image"`
	BatchRows      int           `yaml:"batch_rows"`

	// The following fields are not configured under `examples`.

	Mode     Mode     `yaml:"-"`
	Found    Found    `yaml:"-"`
	Hash     Hash     `yaml:"-"` // how the columns under Categorical are hashed; see [Options.Hashes]
	Needs    []string `yaml:"-"` // columns that a model needs; nil: not known
	Dense    bool     `yaml:"-"` // the stages need dense rows
	Counting string   `yaml:"-"` // key of a stage that counts what occurs in rows, with its value; "": none
}

// Mode is the purpose for which rows are read.
type Mode uint8

const (
	Training   Mode = iota // examples with their labels or targets
	Unlabelled             // training rows without the label, because it is valid or its error is known
	LabelLater             // training rows whose labels or targets come from other messages: see [Options.WithLabelLater]
	Predicting             // rows to predict, configured by flags rather than keys
	Describing             // rows whose columns have no roles yet
)

// Found has properties of rows that must be known before they are read, because they determine the features. Its maps do not change.
type Found struct {
	Categories map[string][]string      // words of the columns under Categorical, by column name
	Offsets    Offsets                  // of columns that float32 does not resolve
	Stamps     map[string]*value.Stamps // times of the columns under Times, by column name
	Learnt     *Learnt                  // rows on which a chain was trained; nil: none
	Extent     Extent                   // of sparse rows that are converted to dense ones; zero: none
}

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{Labels: LabelsOne, Missing: Missing{Mode: MissingError}, MissingValues: value.Usual(), BatchRows: 1024,
		Words: WordOptions{Vocabulary: HashedWords, Columns: 1 << 18, Phrases: 1}}
}

// ServedColumns are the columns of the served prediction of a row: both or neither.
type ServedColumns struct {
	Label   Column `yaml:"label"`   // predicted label
	Version Column `yaml:"version"` // number of the version that predicted it
}

// ColumnChoice selects the feature columns, by number or name.
type ColumnChoice struct {
	Use  []string `yaml:"use"`  // only these; none: all that are not dropped
	Drop []string `yaml:"drop"` // all except these
}

// Shape returns the shape in Image; zero if there is none.
func (o Options) Shape() examples.Image {
	sizes := o.Image
	switch len(sizes) {
	case 0: // without parsing
		return examples.Image{}
	case 2:
		sizes = append(slices.Clone(sizes), "1")
	}
	shape, _ := examples.ParseImage("[" + strings.Join(sizes, ",") + "]")
	return shape
}

// Column identifies a column by its number, from 0, or by its name in the header. A text that can be parsed as a number is
// a number. The zero value means none.
type Column string

// Number returns the column's number. ok is false if the column is given by name, or not at all.
func (c Column) Number() (n int, ok bool) {
	n, err := strconv.Atoi(string(c))
	return n, err == nil
}

// IsName reports whether the column is given by name.
func (c Column) IsName() bool {
	_, ok := c.Number()
	return c != "" && !ok
}

// Key formats the name of a key for errors: a flag of predict, or under examples.
func (o Options) Key(name string) string {
	if o.Mode == Predicting {
		return "--" + name
	}
	return "examples." + name
}

// ToPredictWith returns the options for rows to predict with a model.
func (o Options) ToPredictWith(want Features) Options {
	o.Mode, o.Needs = Predicting, nil
	for _, columns := range bySource(want.Columns) {
		o.Needs = append(o.Needs, columns[0].Source())
	}
	if o.Mixed() {
		o.Needs = append(o.Needs, o.Categorical...)
	}
	if o.Text != "" {
		o.Needs = append(o.Needs, string(o.Text))
	}
	return o
}

// WithLabelLater returns the options for rows whose labels or targets come from other messages. The rows have an
// additional column for the label, or for each target: the first if columns have names, otherwise the last.
func (o Options) WithLabelLater() Options {
	o.Mode, o.LabelColumns = LabelLater, nil
	return o
}

// AreColumns reports whether texts are different columns.
func AreColumns(texts []string) bool {
	return distinct(texts) && !slices.ContainsFunc(texts, func(c string) bool {
		n, isNumber := Column(c).Number()
		return c == "" || isNumber && n < 0
	})
}

// distinct reports whether all texts differ.
func distinct(texts []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(texts)))) == len(texts)
}

// TrainedAs returns the options for reading rows to predict in the way that a run read its training rows.
func TrainedAs(plan *schemas.Plan) Options {
	o, input := Defaults(), plan.Input
	o.Label, o.Weight, o.Header, o.Encoding = Column(input.Label), Column(input.Weight), input.Header, input.Encoding
	o.Delimiter, o.Columns.Use, o.Columns.Drop, o.Categorical = input.Delimiter, input.Use, input.Drop, input.Categorical
	o.Times = PartsOfTimes(input.Times)
	if input.MissingValues != nil {
		o.MissingValues = input.MissingValues
	}
	if input.Text != "" {
		o.Text = Column(input.Text)
		o.Words = WordOptions{Columns: input.WordColumns, Phrases: input.WordPhrases}.Counting(input.Vocabulary)
	}
	if input.Hash != nil {
		o.Hash = Hash{Columns: HashColumns(input.Hash.Columns), Cross: input.Hash.Cross}
	}
	if input.FirstIndex != nil {
		o.Found.Extent = Extent{First: *input.FirstIndex, Width: 1} // the reader of the rows knows the width
	}
	o.Missing.Mode, o.Targets = plan.Missing, plan.Targets
	if o.LabelColumns = input.LabelColumns; plan.Task() == examples.SeveralLabels {
		o.Labels = LabelsSeveral
	}
	return o
}

// Missing is the value of the key `missing`: the handling of missing values, empty fields in a file or nulls in a message.
type Missing struct {
	Mode    string   // MissingError or MissingMean
	Columns []string // columns that later rows of a topic may lack, sorted; only with MissingMean
}

const (
	MissingError = "error" // Missing.Mode: a missing value is an error
	MissingMean  = "mean"  // Missing.Mode: the mean of the feature replaces a missing value
)

// MarshalJSON writes the mode, or an object with the mode of each of Columns.
func (m Missing) MarshalJSON() ([]byte, error) {
	if len(m.Columns) == 0 {
		return json.Marshal(m.Mode)
	}
	by := map[string]string{}
	for _, column := range m.Columns {
		by[column] = m.Mode
	}
	return json.Marshal(by)
}

// UnmarshalJSON reads a mode, or an object with the mode mean of each column.
func (m *Missing) UnmarshalJSON(content []byte) error {
	by := map[string]string{}
	*m = Missing{}
	if json.Unmarshal(content, &m.Mode) == nil {
		return nil
	}
	m.Mode = MissingMean
	if json.Unmarshal(content, &by) != nil || len(by) == 0 {
		return errMissing
	}
	for _, column := range slices.Sorted(maps.Keys(by)) {
		if by[column] != MissingMean {
			return errMissing
		}
		m.Columns = append(m.Columns, column)
	}
	return nil
}

var errMissing = errors.New("expected error or mean, or mean for each of some columns, as in {width: mean}")

// MissingValueError is the error about a missing value where none is allowed.
type MissingValueError string

func (e MissingValueError) Error() string { return string(e) }

// CheckMissing returns an error if missing values are not allowed. what names the value.
func (l *Layout) CheckMissing(what string) error {
	switch {
	case l.Options.Missing.Mode == MissingMean:
		return nil
	case l.Options.Mode == Predicting:
		return MissingValueError(what + ": the model was trained with examples.missing: error")
	}
	return MissingValueError(what + ": examples.missing: mean uses the mean of the column")
}

// missingText formats a missing-value text.
func missingText(text string) string {
	if text == "" {
		return "an empty field"
	}
	return "a missing value, " + value.Quote(text)
}
