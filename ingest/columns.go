package ingest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// role is what a column is for.
type role uint8

const (
	feature  role = iota // a number, or a list of them
	category             // a word, of which several features are made
	label
	target    // a number to predict
	indicator // 1 in the rows with a label
	weight
	counted // a text, whose words are counted
	entries // a sparse row
	ignored
)

// cell says what becomes of a column.
type cell struct {
	role   role
	list   bool           // each row has a list of numbers
	length int            // of a list
	at     int            // of a feature, or of the first of a list or a category: its place among the features; of a target among the targets
	words  schemas.Column // of a category
	index  map[string]int // of a category: the place of the feature of each word
}

// layout says what becomes of each column of a file.
type layout struct {
	options      Options
	defaultLabel Column   // the column of the label, if no key says another
	names        []string // of the columns; nil: the file does not say
	cells        []cell   // of the columns. Until they get other roles, all are features
	label        int      // the column; -1: it is not read
	weight       int      // the column; -1: it is not read
	text         int      // the column of texts; -1: there is none
	sparse       int      // the column of sparse rows; -1: there is none
	words        counter  // of the texts
	rows         schemas.SparseRows
	features     int               // how many there are
	table        schemas.Columns   // that the features are of; nil: nobody knows what they are called
	tableText    string            // of table. Each message has it
	labels       map[string]string // see word
	indicated    map[int]string    // the labels of columns of 0 and 1
	missing      map[string]bool   // words that say that a value is missing
	// locate returns a *FileError at a column; -1: at no particular one.
	locate func(column int, err error) error
}

func newLayout(o Options, defaultLabel Column, columns int, locate func(int, error) error) layout {
	l := layout{
		options: o, defaultLabel: defaultLabel, cells: make([]cell, columns), label: -1, weight: -1, text: -1, sparse: -1, words: newCounter(o),
		labels: map[string]string{}, indicated: map[int]string{}, missing: map[string]bool{}, locate: locate,
	}
	for _, class := range o.Classes {
		l.labels[class] = class
	}
	for _, word := range o.MissingValues {
		l.missing[word] = true
	}
	return l
}

// rowIndex is the name that pandas gives to the index of a data frame. It is a feature only if a key names it.
var rowIndex = regexp.MustCompile(`^__index_level_\d+__$`)

func (l *layout) isRowIndex(column int) bool {
	return l.names != nil && rowIndex.MatchString(l.names[column])
}

// nameOf returns the name of a column: its number if the file does not say.
func (l *layout) nameOf(column int) string {
	if l.names == nil {
		return strconv.Itoa(column)
	}
	return l.names[column]
}

// column returns the number of a column that is given by number or name.
func (l *layout) column(c Column) (int, error) {
	if at, isNumber := c.number(); isNumber {
		if at >= len(l.cells) {
			return 0, l.locate(-1, fmt.Errorf("no column %d: there are %d columns, counted from 0", at, len(l.cells)))
		}
		return at, nil
	}
	at, err := l.find(string(c))
	switch {
	case err != nil:
		return 0, err
	case at < 0 && l.names == nil:
		return 0, l.locate(-1, fmt.Errorf("no column %s: the file has no header", quote(string(c))))
	case at < 0:
		return 0, l.locate(-1, fmt.Errorf("no column %s: expected one of %s", quote(string(c)), someNames(l.names)))
	}
	return at, nil
}

// find returns the number of the column with a name; -1: there is none.
func (l *layout) find(name string) (int, error) {
	at := slices.Index(l.names, name)
	if at < 0 {
		return -1, nil
	}
	if more := slices.Index(l.names[at+1:], name); more >= 0 {
		return 0, l.locate(at+1+more, errors.New("another column has the same name"))
	}
	return at, nil
}

// someNames lists the first names, and how many more there are.
func someNames(names []string) string {
	const maxNames = 10
	var some []string
	for _, name := range names[:min(len(names), maxNames)] {
		some = append(some, quote(name))
	}
	if more := len(names) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("%d more", more))
	}
	return enumerate(some, "and")
}

// place gives a column of words its places among the features, from at on.
func (c *cell) place(at int, column schemas.Column) {
	c.role, c.at, c.words, c.index = category, at, column, make(map[string]int, len(column.Categories))
	for i, word := range column.Categories {
		c.index[word] = at + i
	}
}

// finish checks the features, once all have their places.
func (l *layout) finish() error {
	if l.isSparse() {
		return nil
	}
	l.tableText = l.table.Text()
	switch row := floatRowBytes(l.features); {
	case l.features == 0:
		return l.locate(-1, errors.New("no column is a feature"))
	case row > maxBatchBytes:
		return l.locate(-1, fmt.Errorf("an example of %d features does not fit a message of %d bytes", l.features, schemas.MaxMessage))
	case row+len(l.tableText) > maxBatchBytes:
		return l.locate(-1, fmt.Errorf("an example of %d features and the names of the columns do not fit a message of %d bytes: shorten the names", l.features, schemas.MaxMessage))
	}
	return nil
}

// rowBytes returns how many bytes of a message a row with this label takes. It returns an error if not even a message of this row alone
// holds it.
func (l *layout) rowBytes(label string) (int, error) {
	row := floatRowBytes(l.features) + len(label) + l.targetBytes() + l.listBytes(label) + sparseValueBytes*len(l.words.places)
	if len(l.tableText)+row > maxBatchBytes {
		long := "label"
		if len(l.words.places) > 0 {
			long = "text"
		}
		return 0, fmt.Errorf("the example does not fit a message of %d bytes: its %s is too long", schemas.MaxMessage, long)
	}
	return row, nil
}

// sparseValueBytes is how many bytes of a message a value of a sparse row takes: its index, itself, and less than 1 for their validity.
const sparseValueBytes = 9

// sparseRowBytes returns how many bytes of a message a sparse row with this label takes at most. It returns an error if not even a message of this
// row alone holds it.
func (l *layout) sparseRowBytes(label string, values int) (int, error) {
	row := rowOverhead + schemas.MaxLabel + l.listBytes(label) + l.targetBytes() + sparseValueBytes*values
	if row > maxBatchBytes {
		return 0, fmt.Errorf("the example does not fit a message of %d bytes", schemas.MaxMessage)
	}
	return row, nil
}

// targetBytes returns how many bytes of a message the numbers to predict of a row take.
func (l *layout) targetBytes() int {
	if len(l.options.Targets) == 0 || l.options.predicts {
		return 0
	}
	return 8*len(l.options.Targets) + 1
}

// listBytes returns how many bytes more than its text a list of labels takes at most: each label has an offset, and two bytes of the text at least.
func (l *layout) listBytes(text string) int {
	if !l.options.several() {
		return 0
	}
	bytes := 2*len(text) + 8
	for _, label := range l.indicated {
		bytes += len(label) + 4
	}
	return bytes
}

func (l *layout) width() int { return l.features }

func (l *layout) columns() schemas.Columns { return l.table }

// reading has numbers, as a column that is given by its name is the same one.
func (l *layout) reading() (how reading) {
	if l.options.several() {
		how.Labels, how.LabelSeparator = l.options.Labels, l.options.LabelSeparator
	}
	for at, cell := range l.cells {
		switch cell.role {
		case label:
			how.Label = strconv.Itoa(at)
		case indicator:
			how.LabelColumns = append(how.LabelColumns, at)
		case target:
			if how.Targets == nil {
				how.Targets = make([]int, len(l.options.Targets))
			}
			how.Targets[cell.at] = at
		case weight:
			how.Weight = strconv.Itoa(at)
		case counted:
			how.Text, how.Words, how.Vocabulary = strconv.Itoa(at), &l.options.Words, l.options.digestOfVocabulary()
		case ignored:
			how.Ignored = append(how.Ignored, at)
		case category:
			how.Categories = append(how.Categories, cell.words)
		}
	}
	return how
}
