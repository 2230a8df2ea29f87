package layout

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Role is the use of a column.
type Role uint8

const (
	Feature       Role = iota // a number, or a list of them
	Category                  // a word, of which several features are made
	Time                      // a date or a time, of whose parts features are made
	Label                     // a word, or several
	Target                    // a number to predict
	Indicator                 // 1 in the rows with a label
	Weight                    // a number ≥ 0
	Counted                   // a text, whose words are counted
	Entries                   // a sparse row
	ServedLabel               // the label that a server gave the row
	ServedVersion             // the version that did
	Hashed                    // a word, which a hash gives a column of a mixed row
	ignored
)

// IsFeature reports whether features are made of the values of a column, one by one.
func (r Role) IsFeature() bool { return r == Feature || r == Category || r == Time || r == Hashed }

// Cell says what becomes of a column.
type Cell struct {
	Role   Role
	List   bool // each row has a list of numbers
	Length int  // of a list
	// of a feature, or of the first of a list or a category: its place among the features; of a target among the targets
	At      int
	Offset  float64         // what the numbers of a feature are less
	Offsets []float64       // of a list: the same of each number; nil: nothing
	words   examples.Column // of a category
	parts   []part          // of a time
	index   map[string]int  // of a category: the place of the feature of each word
}

// Layout says what becomes of each column of a file.
type Layout struct {
	Options      Options
	defaultLabel Column              // the column of the label, if no key says another
	Names        []string            // of the columns; nil: the file does not say
	Cells        []Cell              // of the columns. Until they get other roles, all are features
	Label        int                 // the column; -1: it is not read
	Weight       int                 // the column; -1: it is not read
	Text         int                 // the column of texts; -1: there is none
	Sparse       int                 // the column of sparse rows; -1: there is none
	Words        *vocabulary.Counter // of the texts
	Rows         examples.SparseRows
	Features     int                      // how many there are
	Table        examples.Columns         // that the features are of; nil: nobody knows what they are called
	TableText    string                   // of table. Each message has it
	Labels       map[string]string        // see word
	ByName       bool                     // columns have names alone, which may be numbers
	Encoded      bool                     // text of the file may have another encoding, which the options say
	LabelOf      func(text string) string // the label that a text is
	NoLabels     value.Missing            // words that are no label
	Indicated    map[int]string           // the labels of columns of 0 and 1
	missing      value.Missing            // words that say that a value is missing
	mixed        *mixed                   // nil: rows are not mixed
	// Locate returns a *input.Error at a column; -1: at no particular one.
	Locate func(column int, err error) error
}

// New returns a Layout of columns without roles. locate makes its errors.
func New(o Options, defaultLabel Column, columns int, locate func(int, error) error) Layout {
	l := Layout{
		Options: o, defaultLabel: defaultLabel, Cells: make([]Cell, columns), Label: -1, Weight: -1, Text: -1, Sparse: -1,
		Words:  vocabulary.NewCounter(o.Words),
		Labels: map[string]string{}, LabelOf: value.Label, NoLabels: o.MissingLabels(), Indicated: map[int]string{},
		missing: o.MissingValues, Locate: locate,
	}
	l.KeepClasses()
	return l
}

// rowIndex is the name that pandas gives to the index of a data frame. It is a feature only if a key names it.
var rowIndex = regexp.MustCompile(`^__index_level_\d+__$`)

func (l *Layout) isRowIndex(column int) bool {
	return l.Names != nil && rowIndex.MatchString(l.Names[column])
}

// NameOf returns the name of a column: its number if the file does not say.
func (l *Layout) NameOf(column int) string {
	if l.Names == nil {
		return strconv.Itoa(column)
	}
	return l.Names[column]
}

// Column returns the number of a column that is given by number or name.
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

// find returns the number of the column with a name; -1: there is none.
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

// SomeNames lists the first names, and how many more there are.
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

// place gives a column of words its places among the features, from at on.
func (c *Cell) place(at int, column examples.Column) {
	c.Role, c.At, c.words, c.index = Category, at, column, make(map[string]int, len(column.Categories))
	for i, word := range column.Categories {
		c.index[word] = at + i
	}
}

// Finish checks the features, once all have their places.
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

// RowBytes returns the bytes that a row with this label takes in a message. It returns an error if the row does not fit a message
// of its own.
func (l *Layout) RowBytes(label string) (int, error) {
	if l.IsMixed() {
		return l.SparseRowBytes(label, l.mixedValues())
	}
	row := FloatRowBytes(l.Features) + len(label) + l.TargetBytes() + l.listBytes(label) + sparseValueBytes*l.Words.Size()
	if len(l.TableText)+row > MaxBatchBytes {
		long := "label"
		if l.Words.Size() > 0 {
			long = "text"
		}
		return 0, fmt.Errorf("the example does not fit a message of %d bytes: its %s is too long", wire.MaxMessage, long)
	}
	return row, nil
}

// sparseValueBytes is how many bytes of a message a value of a sparse row takes: its index, itself, and less than 1 for their validity.
const sparseValueBytes = 9

// SparseRowBytes returns the maximum bytes that a sparse row with this label takes in a message. It returns an error if
// the row does not fit a message of its own.
func (l *Layout) SparseRowBytes(label string, values int) (int, error) {
	row := rowOverhead + examples.MaxLabel + l.listBytes(label) + l.TargetBytes() + sparseValueBytes*values
	if row > MaxBatchBytes {
		return 0, fmt.Errorf("the example does not fit a message of %d bytes", wire.MaxMessage)
	}
	return row, nil
}

// TargetBytes returns the bytes that the targets of a row take in a message.
func (l *Layout) TargetBytes() int {
	if len(l.Options.Targets) == 0 || l.Options.Predicts() {
		return 0
	}
	return 8*len(l.Options.Targets) + 1
}

// listBytes returns how many bytes more than its text a list of labels takes at most: each label has an offset, and two
// bytes of the text at least.
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

// Columns returns those that the features are of; nil if their names are not known.
func (l *Layout) Columns() examples.Columns { return l.Table }

// Reading has numbers, as a column that is given by its name is the same one.
func (l *Layout) Reading() (how Reading) {
	if l.Options.Several() {
		how.Labels, how.LabelSeparator = l.Options.Labels, l.Options.LabelSeparator
	}
	for _, class := range l.Options.Classes {
		if slices.Contains(l.missing, class) {
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

// CheckNumber returns an error for an invalid feature value.
func (l *Layout) CheckNumber(v float64) error {
	switch f := float32(v); {
	case v != v:
		return l.CheckMissing("a missing value")
	case f-f != 0: // f-f is 0 for finite f only
		return fmt.Errorf("%v is not a finite float32", v)
	}
	return nil
}

// IsSparse reports whether the rows are sparse: lists of index and value, counts of the words of texts, or mixed rows.
func (l *Layout) IsSparse() bool { return l.Sparse >= 0 || l.Text >= 0 || l.IsMixed() }
