package layout

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

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

// Cell describes the role and the feature positions of a column.
type Cell struct {
	Role   Role
	List   bool // each row has a list of numbers
	Length int  // of a list
	Whole  bool // labels are integers with a type
	// Separated means that several labels are in a text, with separators: null has none. The labels of a null list are unknown.
	Separated bool
	// feature position, or that of the first of a list or a category; for a target its position among the targets
	At      int
	Offset  float64         // subtracted from the numbers of a feature
	Offsets []float64       // of a list: the offset of each number; nil: none
	words   examples.Column // of a category
	parts   []part          // of a time
	index   map[string]int  // of a category: word to feature position
}

// Layout describes the roles of the columns of a file.
type Layout struct {
	Options      Options
	defaultLabel Column                   // default label column
	Names        []string                 // column names; nil: not in the file
	Cells        []Cell                   // by column. Until they get other roles, all are features
	Label        int                      // column of the label; -1: not read
	Weight       int                      // column of the weight; -1: not read
	Text         int                      // text column; -1: none
	Sparse       int                      // column of sparse rows; -1: none
	Words        *vocabulary.Counter      // for the texts
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

// New returns a Layout of columns without roles. locate adds positions to its errors.
func New(o Options, defaultLabel Column, columns int, locate func(int, error) error) Layout {
	l := Layout{
		Options: o, defaultLabel: defaultLabel, Cells: make([]Cell, columns), Label: -1, Weight: -1, Text: -1, Sparse: -1,
		Words:  vocabulary.NewCounter(o.Words),
		Labels: map[string]string{}, LabelOf: value.Label, NoLabels: o.MissingLabels(), Indicated: map[int]string{},
		missing: value.MissingOf(o.MissingValues), Locate: locate, Collect: func(_ int, err error) error { return err },
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
func (l *Layout) NameOf(column int) string {
	if l.Names == nil {
		return strconv.Itoa(column)
	}
	return l.Names[column]
}

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
	return option.Enumerate(some, "and")
}

// Refuse is Collect for an error without a position.
func (l *Layout) Refuse(column int, err error) error { return l.Collect(column, l.Locate(column, err)) }

// Ignore excludes a column from reading.
func (l *Layout) Ignore(column int) {
	l.Cells[column].Role = ignored
	for _, at := range []*int{&l.Label, &l.Weight, &l.Text, &l.Sparse} {
		if *at == column {
			*at = -1
		}
	}
}

// KeyOf returns the key that gives a column its role, as advice.
func (l *Layout) KeyOf(column int) string {
	c, name := l.Cells[column], l.NameOf(column)
	isUsed := func(c string) bool {
		n, isNumber := Column(c).Number()
		return c == name || isNumber && n == column
	}
	switch {
	case c.Role == Weight:
		return "examples.weight names the weight column"
	case c.Role == Target:
		return "examples.targets names the predicted columns"
	case c.Role == Indicator:
		return "examples.label_columns names the label columns"
	case c.Role == Label:
		return "examples.label names the label column"
	case slices.ContainsFunc(l.Options.Columns.Use, isUsed):
		return "examples.columns.use names the feature columns"
	}
	return "examples.columns.drop excludes a column"
}

// place assigns feature positions to a categorical column, starting at a position.
func (c *Cell) place(at int, column examples.Column) {
	c.Role, c.At, c.words, c.index = Category, at, column, make(map[string]int, len(column.Categories))
	for i, word := range column.Categories {
		c.index[word] = at + i
	}
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

// RowBytes returns the maximum size of a row with this label and so many sparse values in a message. It returns an error if the
// row does not fit into a message of its own.
func (l *Layout) RowBytes(label string, values int) (int, error) {
	row := FloatRowBytes(l.Features) + len(label) + sparseValueBytes*values
	if l.Sparse >= 0 || l.IsMixed() {
		row = rowOverhead + examples.MaxLabel + sparseValueBytes*values
	}
	if row += l.TargetBytes() + l.listBytes(label); len(l.TableText)+row <= MaxBatchBytes {
		return row, nil
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

// TargetBytes returns the size of the targets of a row in a message.
func (l *Layout) TargetBytes() int {
	if len(l.Options.Targets) == 0 || l.Options.Predicts() {
		return 0
	}
	return 8*len(l.Options.Targets) + 1
}

// listBytes returns the maximum additional size of a list of labels compared with its text: each label has an offset, and
// takes at least two bytes of the text.
func (l *Layout) listBytes(text string) int {
	if !l.Options.Several() {
		return 0
	}
	bytes := 2*len(text) + 8
	for _, label := range l.Indicated {
		bytes += len(label) + 4
	}
	return bytes
}

// Width returns the number of features; 0: rows are sparse.
func (l *Layout) Width() int {
	if l.IsSparse() {
		return 0
	}
	return l.Features
}

// Columns returns the columns of the features; nil if their names are unknown.
func (l *Layout) Columns() examples.Columns { return l.Table }

// Reading uses column numbers, since a column given by name is the same one.
func (l *Layout) Reading() (how Reading) {
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
				if how.Offsets == nil {
					how.Offsets = map[int]float64{}
				}
				how.Offsets[at] = cell.Offset
			}
		case ignored:
			how.Ignored = append(how.Ignored, at)
		case Hashed:
			h := l.Options.Hash()
			how.Hash = &Hashing{l.Options.Categorical, int(h.Columns), h.Cross}
		case Category:
			how.Categories = append(how.Categories, cell.words)
		case Time:
			if how.Times == nil {
				how.Times = map[int][]examples.Column{}
			}
			for _, p := range cell.parts {
				how.Times[at] = append(how.Times[at], p.column)
			}
		}
	}
	how.Order = l.placed()
	return how
}

// IsSparse reports whether the rows are sparse: lists of index and value, word counts, or mixed rows.
func (l *Layout) IsSparse() bool { return l.Sparse >= 0 || l.Text >= 0 || l.IsMixed() }
