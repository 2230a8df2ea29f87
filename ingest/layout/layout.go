// Package layout assigns a role to each column of a row from any source: a feature, a category, a label, a target, a
// weight, or none.
//
// Options configure the columns. A Layout has the roles of the columns of one file, and turns blocks of its rows into
// examples: Fill is the only code that reads values by role. A Request is the layout of rows to predict that come from no file.
package layout

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Reading describes how the columns of a file were read. The zero value is for formats without columns. The names and the
// order of the fields are part of source IDs: an added field needs `omitempty`, so that existing sources keep their IDs.
type Reading struct {
	Label  string // column number; "": there is none
	Weight string
	Header bool // the first row is a header

	Delimiter      string            `json:",omitempty"` // unless it is a comma
	Ignored        []int             `json:",omitempty"` // numbers of ignored columns
	Categories     []examples.Column `json:",omitempty"` // the categorical columns, with their words
	Labels         string            `json:",omitempty"` // unless single-label
	LabelSeparator string            `json:",omitempty"` // of labels in a text, unless any
	LabelColumns   []int             `json:",omitempty"` // numbers of the 0/1 columns
	Targets        []int             `json:",omitempty"` // numbers of the target columns, in the order of the key
	MissingValues  []string          `json:",omitempty"` // unless they are the default

	LabelWords    []string `json:",omitempty"` // missing-value texts that are labels, because they are among the classes
	BooleanLabels bool     `json:",omitempty"` // the labels are the booleans true and false
	NumberLabels  bool     `json:",omitempty"` // the labels are numbers, and some of the first are not in their shortest form

	Image string `json:",omitempty"` // image shape, for files that do not all include it

	Text  string       `json:",omitempty"` // number of the text column
	Words *WordOptions `json:",omitempty"` // how it is read

	Vocabulary wire.Digest `json:",omitempty"` // of a counted vocabulary

	Encoding string   `json:",omitempty"` // of text, unless UTF-8
	Path     []string `json:",omitempty"` // partition values from directory names

	Offsets map[int]float64 `json:",omitempty"` // by number of the numeric column

	Hash *Hashing `json:",omitempty"` // how categorical columns are hashed

	Dense *Extent `json:",omitempty"` // columns of sparse rows that were converted to dense ones

	Times map[int][]examples.Column `json:",omitempty"` // parts of time columns, by column number

	Order []int `json:",omitempty"` // numbers of the feature columns, if their positions are not in file order
}

// Hashing describes how the words of columns become columns of sparse rows.
type Hashing struct {
	Names   []string // column names from the configuration
	Columns int
	Cross   Crosses `json:",omitempty"`
}

// Role is the role of a column.
type Role uint8

const (
	Feature       Role = iota // a number, or a list of them
	Category                  // a word, one-hot encoded
	Time                      // a date or a time, whose parts become features
	Label                     // a word, or several
	Target                    // a regression target
	Indicator                 // 1 in the rows with a label
	Weight                    // a number ≥ 0
	Counted                   // a text, whose words are counted
	Entries                   // a sparse row
	ServedLabel               // the label predicted by a server
	ServedVersion             // the version that predicted it
	Hashed                    // a word, hashed to a column of a mixed row
	ignored
)

// IsFeature reports whether the values of a column become features, one by one.
func (r Role) IsFeature() bool { return r == Feature || r == Category || r == Time || r == Hashed }

// Cell describes a column: what its file says, its role, and the positions of its features.
type Cell struct {
	tabular.Field
	Role Role
	key  string // under examples that gives the role; "": none
	// feature position, or that of the first of a list or a category; for a target its position among the targets
	At      int
	Offset  float64          // subtracted from the numbers of a feature
	Offsets []float64        // of a list: the offset of each number; nil: none
	columns examples.Columns // of its features
	index   map[string]int   // of a category: word to feature position
}

// Layout describes the roles of the columns of a file.
type Layout struct {
	Options      Options
	defaultLabel Column                   // default label column
	Names        []string                 // column names; nil: not in the file
	names        []string                 // Names, or else the numbers of the columns
	Cells        []Cell                   // by column. Until they get other roles, all are features
	Label        int                      // column of the label; -1: not read
	Text         int                      // text column; -1: none
	Sparse       int                      // column of sparse rows; -1: none
	Words        *Counter                 // for the texts
	Features     int                      // number of features
	Table        examples.Columns         // columns of the features; nil: names unknown
	TableText    string                   // text of Table, included in each message
	Labels       map[string]string        // see Word
	ByName       bool                     // columns only have names, which may be numbers
	Encoded      bool                     // the text of the file may have the encoding of the options
	LabelOf      func(text string) string // converts a text to a label
	NoLabels     value.Missing            // texts that are not labels
	Indicated    map[int]string           // labels of 0/1 columns
	missing      value.Missing
	mixed        *mixed // nil: rows are not mixed
	// Locate returns a *input.Error at a column; -1: none.
	Locate func(column int, err error) error
	// Collect takes the error of a column, and returns the error that ends the reading; nil if the column is only ignored, because all
	// errors are collected.
	Collect func(column int, err error) error
}

// New returns a Layout of columns without roles; named reports whether they have names. locate adds positions to its errors.
func New(o Options, defaultLabel Column, fields []tabular.Field, named bool, locate func(int, error) error) Layout {
	l := Layout{
		Options: o, defaultLabel: defaultLabel, Cells: make([]Cell, len(fields)), Label: -1, Text: -1, Sparse: -1,
		Words:  NewCounter(o.Words),
		Labels: map[string]string{}, LabelOf: value.Label, NoLabels: o.MissingLabels(), Indicated: map[int]string{},
		missing: value.MissingOf(o.MissingValues), Locate: locate, Collect: func(_ int, err error) error { return err },
	}
	l.names = make([]string, len(fields))
	for i, f := range fields {
		if l.Cells[i].Field, l.names[i] = f, f.Name; !named {
			l.names[i] = strconv.Itoa(i)
		}
	}
	if named {
		l.Names = l.names
	}
	l.KeepClasses()
	return l
}

// rowIndex matches pandas' names for the index of a data frame. It is a feature only if a key names it.
var rowIndex = regexp.MustCompile(`^__index_level_\d+__$`)

func (l *Layout) isRowIndex(column int) bool {
	return l.Names != nil && rowIndex.MatchString(l.Names[column])
}

// NameOf returns the name of a column: its number if there are no names.
func (l *Layout) NameOf(column int) string { return l.names[column] }

// Column returns the number of a column given by number or name.
func (l *Layout) Column(c Column) (int, error) {
	if at, isNumber := c.Number(); isNumber && !l.ByName {
		if at >= len(l.Cells) {
			return 0, l.Locate(-1, fmt.Errorf("no column %d: there are %d columns, counted from 0", at, len(l.Cells)))
		}
		return at, nil
	}
	at, err := l.find(string(c))
	switch {
	case err != nil:
		return 0, err
	case at < 0 && l.Names == nil:
		return 0, l.Locate(-1, fmt.Errorf("no column %s: the file has no header", value.Quote(string(c))))
	case at < 0:
		return 0, l.Locate(-1, fmt.Errorf("no column %s: expected one of %s", value.Quote(string(c)), SomeNames(l.Names)))
	}
	return at, nil
}

// find returns the number of the column with a name; -1: none.
func (l *Layout) find(name string) (int, error) {
	at := slices.Index(l.Names, name)
	if at < 0 {
		return -1, nil
	}
	if more := slices.Index(l.Names[at+1:], name); more >= 0 {
		return 0, l.Locate(at+1+more, errors.New("another column has the same name"))
	}
	return at, nil
}

// SomeNames lists the first names, and the number of further ones.
func SomeNames(names []string) string {
	const maxNames = 10
	var some []string
	for _, name := range names[:min(len(names), maxNames)] {
		some = append(some, value.Quote(name))
	}
	if more := len(names) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("%d more", more))
	}
	return english.WordSeries(some, "and")
}

// Refuse is Collect for an error without a position.
func (l *Layout) Refuse(column int, err error) error { return l.Collect(column, l.Locate(column, err)) }

// Ignore excludes a column from reading.
func (l *Layout) Ignore(column int) {
	l.Cells[column].Role = ignored
	for _, at := range []*int{&l.Label, &l.Text, &l.Sparse} {
		if *at == column {
			*at = -1
		}
	}
}

// KeyOf returns the key that gives a column its role, as advice.
func (l *Layout) KeyOf(column int) string {
	if key := l.Cells[column].key; key != "" {
		return "examples." + key + " names this column"
	}
	return "examples.columns.drop excludes a column"
}

// Finish checks the features after all positions are assigned.
func (l *Layout) Finish() error {
	if l.IsMixed() {
		return l.finishMixed()
	}
	if l.IsSparse() {
		return nil
	}
	l.TableText = l.Table.Text()
	switch row := FloatRowBytes(l.Features); {
	case l.Features == 0:
		return l.Locate(-1, ErrNoFeature)
	case row > MaxBatchBytes:
		return l.Locate(-1, fmt.Errorf("an example of %d features does not fit a message of %d bytes", l.Features, wire.MaxMessage))
	case row+len(l.TableText) > MaxBatchBytes:
		return l.Locate(-1, fmt.Errorf("an example of %d features and the names of the columns do not fit a message of %d bytes: "+
			"shorten the names", l.Features, wire.MaxMessage))
	}
	return nil
}

// ErrNoFeature is the error of a file without feature columns.
var ErrNoFeature = errors.New("no column is a feature")

// sparseValueBytes is the size of a sparse value in a message: its index, itself, and less than 1 for their validity.
const sparseValueBytes = 9

// servedBytes is the size of a served prediction without its label: its offset, the version, and two validity bits.
const servedBytes = 13

// leastBytes returns the size of a row in a message without its label and sparse values.
func (l *Layout) leastBytes() int {
	size := FloatRowBytes(l.Features)
	if k := len(l.Options.Targets); k > 0 && l.Options.Mode != Predicting {
		size += 8*k + 1
	}
	return size
}

// sizeOf returns the maximum size of a filled row in a message. It is an error if the row does not fit into a message of its own.
func (l *Layout) sizeOf(rows *examples.Rows, row int) (int, error) {
	label, size := "", l.leastBytes()
	switch {
	case len(rows.Words) > 0:
		label = rows.Words[row]
	case len(rows.LabelLists) > 0: // each label has an offset, and takes at least two bytes of the text
		label = strings.Join(rows.LabelLists[row], ",")
		size += 2*len(label) + 8
		for _, indicated := range l.Indicated {
			size += len(indicated) + 4
		}
	}
	if size += len(label); l.Sparse >= 0 || l.IsMixed() {
		size += rowOverhead + examples.MaxLabel - FloatRowBytes(l.Features) - len(label)
	}
	if rows.Sparse != nil {
		indices, _ := rows.Sparse.Row(row)
		size += sparseValueBytes * len(indices)
	}
	if len(rows.Served) > 0 {
		size += servedBytes + len(rows.Served[row].Label)
	}
	if len(l.TableText)+size <= MaxBatchBytes {
		return size, nil
	}
	why := ": its label is too long"
	switch {
	case l.Text >= 0:
		why = ": its text is too long"
	case l.IsSparse():
		why = ""
	}
	return 0, fmt.Errorf("the example does not fit a message of %d bytes%s", wire.MaxMessage, why)
}

// Width returns the number of features; 0: rows are sparse.
func (l *Layout) Width() int {
	if l.IsSparse() {
		return 0
	}
	return l.Features
}

// Reading describes how the columns are read. It uses column numbers, since a column given by name is the same one.
func (l *Layout) Reading() Reading {
	how := Reading{Offsets: map[int]float64{}, Times: map[int][]examples.Column{}}
	if !slices.Equal(l.Options.MissingValues, value.Usual()) {
		how.MissingValues = l.Options.MissingValues
	}
	if l.Options.Several() {
		how.Labels, how.LabelSeparator = l.Options.Labels, l.Options.LabelSeparator
	}
	for _, class := range l.Options.Classes {
		if l.missing.Has(class) {
			how.LabelWords = append(how.LabelWords, class)
		}
	}
	for at, cell := range l.Cells {
		switch cell.Role {
		case Label:
			how.Label = strconv.Itoa(at)
		case Indicator:
			how.LabelColumns = append(how.LabelColumns, at)
		case Target:
			if how.Targets == nil {
				how.Targets = make([]int, len(l.Options.Targets))
			}
			how.Targets[cell.At] = at
		case Weight:
			how.Weight = strconv.Itoa(at)
		case Counted:
			how.Text, how.Words, how.Vocabulary = strconv.Itoa(at), &l.Options.Words, l.Options.Words.Digest()
		case Feature:
			if cell.Offset != 0 {
				how.Offsets[at] = cell.Offset
			}
		case ignored:
			how.Ignored = append(how.Ignored, at)
		case Hashed:
			h := l.Options.Hashes()
			how.Hash = &Hashing{l.Options.Categorical, int(h.Columns), h.Cross}
		case Category:
			how.Categories = append(how.Categories, cell.columns[0])
		case Time:
			how.Times[at] = cell.columns
		}
	}
	how.Order = l.placed()
	return how
}

// IsSparse reports whether the rows are sparse: lists of index and value, word counts, or mixed rows.
func (l *Layout) IsSparse() bool { return l.Sparse >= 0 || l.Text >= 0 || l.IsMixed() }

const (
	// MaxBatchBytes is the maximum size of the rows of a message. It leaves 10 KB for the schema, the framing and the padding
	// of the columns, which together take less than 3.
	MaxBatchBytes = wire.MaxMessage - 10_000
	// rowOverhead is the size of a row without its features and the text of its label: label 8 (number, or offset of the
	// text), weight 4, split 4 and its text 7, and less than 1 for the validity of all of them.
	rowOverhead = 24
)

// ByteRowBytes is the size of a row of uint8 features in a message.
func ByteRowBytes(cols int) int { return cols + rowOverhead }

// FloatRowBytes is the size of a row of float32 features in a message, with a validity bit for each, without the text of
// its label.
func FloatRowBytes(cols int) int { return 4*cols + (cols+7)/8 + rowOverhead }

// DecimalComma matches a number with a decimal comma.
var DecimalComma = regexp.MustCompile(`^[-+]?[0-9]+,[0-9]+$`)

// date matches the beginning of a date that examples.times accepts.
var date = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`)

// advise adds advice to the error about a value that is not a number: how to write it, or the keys that accept such a column.
func (l *Layout) advise(column int, err error) error {
	field, ok := err.(value.NumberError)
	if ok && DecimalComma.MatchString(string(field)) {
		return fmt.Errorf("%w: write decimals with a point", err)
	}
	if !ok || l.Options.Mode == Predicting || column < 0 || l.Cells[column].Role != Feature {
		return err
	}
	const missing, drop = "examples.missing_values lists the words for a missing value", "examples.columns.drop excludes a column"
	first, _ := utf8.DecodeRuneInString(string(field))
	unsigned := strings.TrimLeft(string(field), "+-")
	switch {
	case field == "" || len(field) > 40 || unsigned != "" && unsigned != string(field): // such as -Inf
	case date.MatchString(string(field)):
		return fmt.Errorf("%w: examples.times accepts columns of dates and times, %s", err, drop)
	case unicode.IsLetter(first):
		return fmt.Errorf("%w: examples.categorical accepts columns of words, %s, %s", err, drop, missing)
	case first == '#' || !strings.ContainsFunc(string(field), unicode.IsDigit): // such as \N, #N/A or #DIV/0!
		return fmt.Errorf("%w: %s, %s", err, missing, drop)
	}
	return err
}
