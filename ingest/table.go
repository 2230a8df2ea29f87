package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
)

// kind is what the values of a column of a table are.
type kind uint8

const (
	unread  kind = iota // nothing that stagewise reads, such as a date
	numeric             // floating-point numbers
	whole               // whole numbers; booleans are 0 and 1
	text
	list // of numbers, as many in each row
)

// field is a column of a table, as its file describes it.
type field struct {
	name   string
	kind   kind
	typ    string // the file's name of its type
	length int    // of a list
}

// table is an open file whose schema names and types its columns. Row numbers are from 0. Its errors are without a place, and
// table may panic if the file is damaged.
type table interface {
	fields() []field
	// begin makes the next n rows current, or fewer at the end of the file. 0: there are no more.
	begin(n int) (int, error)
	// numbers calls put for each value of a column of numbers or lists in the current rows. i counts them from 0, row by row. A
	// null is NaN.
	numbers(column int, put func(i int, v float64) error) error
	// wholes calls put for each value of a column of whole numbers in the current rows.
	wholes(column int, put func(row int, v int64, null bool) error) error
	// texts calls put for each value of a column of text in the current rows. v is valid during the call.
	texts(column int, put func(row int, v []byte, null bool) error) error
}

// raggedAt returns the error of a row whose list has another length than that of the first row.
func raggedAt(row int64, length int) error {
	return fmt.Errorf("row %d, counted from 0: the list does not have %d values, as that of row 0 has", row, length)
}

// tableReader reads the rows of a table. It reads as many rows at a time as a batch may have, so batches do not depend on how the
// file groups its rows.
type tableReader struct {
	*content
	table       table
	options     Options
	all         []field
	features    []int // the columns that become features, in the order of the features
	label       int   // column; -1: it is not read
	weight      int   // column; -1: it is not read
	named       schemas.Columns
	columnsText string // Columns.Text of named
	read        int64  // rows before the block
	block       schemas.ExampleRows
	emitted     int // rows of the block that were in a batch
	batch       schemas.ExampleRows
	words       map[string]string
}

// rowIndex is the name that pandas gives to the index of a data frame. It is no feature.
var rowIndex = regexp.MustCompile(`^__index_level_\d+__$`)

// tableLabel is the column of the label.
func tableLabel(o Options) Column { return cmp.Or(o.Label, "label") }

// newTable returns a reader of examples with their labels.
func newTable(c *content, t table, o Options) (reader, error) {
	r := newTableReader(c, t, o)
	if len(o.Categorical) > 0 {
		return nil, r.fail(-1, errors.New("examples.categorical: columns of words become features in CSV only: write them as numbers, or leave them out"))
	}
	var err error
	if r.label, err = r.column(tableLabel(o)); err != nil {
		if o.Label == "" {
			err = r.fail(-1, fmt.Errorf("no column %q: set examples.label to one of the columns %s", tableLabel(o), r.columnNames()))
		}
		return nil, err
	}
	if k := r.all[r.label].kind; k != text && k != whole {
		return nil, r.fail(r.label, fmt.Errorf("labels of type %s: expected text or whole numbers", r.all[r.label].typ))
	}
	if o.Weight != "" {
		if r.weight, err = r.column(o.Weight); err != nil {
			return nil, err
		}
		if r.weight == r.label {
			return nil, r.fail(r.weight, errors.New("both the label and the weight"))
		}
		if k := r.all[r.weight].kind; k != numeric && k != whole {
			return nil, r.fail(r.weight, fmt.Errorf("weights of type %s: expected numbers", r.all[r.weight].typ))
		}
	}
	if r.features, err = r.chosen(); err != nil {
		return nil, err
	}
	r.without(r.label, r.weight)
	return r, r.finish()
}

// newTableFeatures returns a reader of rows without their labels and weights. The columns of a model that knows their names may be in
// any order, among others. Otherwise the file has the columns of training, or only the features.
func newTableFeatures(c *content, t table, o Options, want Features) (reader, error) {
	r := newTableReader(c, t, o)
	var err error
	if r.features, err = r.chosen(); err != nil {
		r.features = r.features[:0]
		for i := range r.all {
			r.features = append(r.features, i)
		}
	}
	isList := slices.ContainsFunc(r.all, func(f field) bool { return f.kind == list && f.length == want.Width })
	if want.Columns != nil && !isList {
		if r.features, err = r.columnsByName(want.Columns); err != nil {
			return nil, err
		}
		return r, r.finish()
	}
	// For a column that is given by its number, the number of features tells whether the file has it.
	for _, byName := range []bool{true, false} {
		if !byName && r.width() == want.Width {
			break
		}
		for _, column := range []Column{tableLabel(o), o.Weight} {
			if at, err := r.column(column); column != "" && err == nil && column.IsName() == byName {
				r.without(at)
			}
		}
	}
	if r.width() != want.Width {
		return nil, r.fail(-1, fmt.Errorf("%d columns: expected %d features, with or without the label", len(r.all), want.Width))
	}
	return r, r.finish()
}

func newTableReader(c *content, t table, o Options) *tableReader {
	r := &tableReader{content: c, table: t, options: o, words: map[string]string{}, all: t.fields(), label: -1, weight: -1}
	for _, class := range o.Classes {
		r.words[class] = class
	}
	return r
}

// chosen returns the columns that examples.columns chooses, in the order of the file. The index of a data frame is none.
func (r *tableReader) chosen() (chosen []int, err error) {
	for i, f := range r.all {
		if !rowIndex.MatchString(f.name) {
			chosen = append(chosen, i)
		}
	}
	if len(r.options.Columns.Use) > 0 {
		chosen = nil
		for _, c := range r.options.Columns.Use {
			at, err := r.column(Column(c))
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, at)
		}
		slices.Sort(chosen)
		chosen = slices.Compact(chosen)
	}
	for _, c := range r.options.Columns.Drop {
		at, err := r.column(Column(c))
		if err != nil {
			return nil, err
		}
		chosen = slices.DeleteFunc(chosen, func(i int) bool { return i == at })
	}
	return chosen, nil
}

// without removes columns from the features.
func (r *tableReader) without(columns ...int) {
	r.features = slices.DeleteFunc(r.features, func(i int) bool { return slices.Contains(columns, i) })
}

// columnsByName returns the columns of a model, in its order.
func (r *tableReader) columnsByName(want schemas.Columns) (features []int, err error) {
	var missing []string
	for _, c := range want {
		at := slices.IndexFunc(r.all, func(f field) bool { return f.name == c.Name })
		switch {
		case at < 0:
			missing = append(missing, quote(c.Name))
		case len(c.Categories) > 0:
			return nil, r.fail(at, errors.New("the model knows it as a column of words, which is read from CSV only"))
		default:
			if _, err := r.column(Column(c.Name)); err != nil {
				return nil, err
			}
			features = append(features, at)
		}
	}
	if len(missing) > 0 {
		const most = 5
		more := ""
		if len(missing) > most {
			more = fmt.Sprintf(" and %d more", len(missing)-most)
		}
		return nil, r.fail(-1, fmt.Errorf("columns that the model needs are not there: %s%s", strings.Join(missing[:min(most, len(missing))], ", "), more))
	}
	return features, nil
}

// column returns the number of a column that is given by number or name.
func (r *tableReader) column(c Column) (int, error) {
	if at, isNumber := c.number(); isNumber {
		if at >= len(r.all) {
			return 0, r.fail(-1, fmt.Errorf("no column %d: there are %d columns, counted from 0", at, len(r.all)))
		}
		return at, nil
	}
	at := -1
	for i, f := range r.all {
		if f.name != string(c) {
			continue
		}
		if at >= 0 {
			return 0, r.fail(i, errors.New("another column has the same name"))
		}
		at = i
	}
	if at < 0 {
		return 0, r.fail(-1, fmt.Errorf("no column %s: expected one of %s", quote(string(c)), r.columnNames()))
	}
	return at, nil
}

// columnNames names the first columns, for people who gave another one.
func (r *tableReader) columnNames() string {
	const maxNames = 10
	var names []string
	for _, f := range r.all[:min(len(r.all), maxNames)] {
		names = append(names, quote(f.name))
	}
	if more := len(r.all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return enumerate(names, "and")
}

// finish checks that all features can be read, once their columns are known.
func (r *tableReader) finish() error {
	lists := -1
	for _, i := range r.features {
		switch f := r.all[i]; f.kind {
		case list:
			lists = i
		case unread, text:
			return r.fail(i, fmt.Errorf("type %s: features are numbers, booleans, or one list of numbers: leave the column out with "+
				"examples.columns.drop, or make it a number", f.typ))
		}
	}
	if lists >= 0 && len(r.features) > 1 {
		return r.fail(lists, fmt.Errorf("a list of features beside %d other columns: expected one list of all features, or a column for each", len(r.features)-1))
	}
	if lists < 0 {
		for _, i := range r.features {
			r.named = append(r.named, schemas.Column{Name: r.all[i].name})
		}
		if err := r.named.Check(); err != nil {
			return r.fail(-1, err)
		}
	}
	r.block.Cols, r.columnsText = r.width(), r.named.Text()
	switch row := floatRowBytes(r.block.Cols); {
	case r.block.Cols == 0:
		return r.fail(-1, errors.New("no column is a feature"))
	case row > maxBatchBytes:
		return r.fail(-1, fmt.Errorf("an example of %d features does not fit a message of %d bytes", r.block.Cols, schemas.MaxMessage))
	case row+len(r.columnsText) > maxBatchBytes-schemas.MaxLabel:
		return r.fail(-1, fmt.Errorf("an example of %d features and the names of the columns do not fit a message of %d bytes: shorten the names", r.block.Cols, schemas.MaxMessage))
	}
	return nil
}

// fail returns an error at a column; -1: at no particular column.
func (r *tableReader) fail(column int, err error) error {
	if place, ok := errors.AsType[*FileError](err); ok {
		return place
	}
	e := wholeFile(r.name, err)
	if column >= 0 {
		e.Column = strconv.Itoa(column) + " (" + quote(r.all[column].name) + ")"
	}
	return e
}

// failAt returns an error at a row of the block.
func (r *tableReader) failAt(row int, err error) error {
	return fmt.Errorf("row %d, counted from 0: %w", r.read+int64(row), err)
}

// width returns how many features the columns have.
func (r *tableReader) width() (n int) {
	for _, i := range r.features {
		n += r.all[i].features()
	}
	return n
}

// features returns how many features the column becomes.
func (f field) features() int {
	if f.kind == list {
		return f.length
	}
	return 1
}

func (r *tableReader) columns() schemas.Columns { return r.named }

// reading has numbers, as a column that is given by its name is the same one.
func (r *tableReader) reading() (how reading) {
	for i := range r.all {
		switch {
		case i == r.label:
			how.Label = strconv.Itoa(i)
		case i == r.weight:
			how.Weight = strconv.Itoa(i)
		case !slices.Contains(r.features, i):
			how.Ignored = append(how.Ignored, i)
		}
	}
	return how
}

// next returns the next rows of the block that fit a message together, and reads a block when all are in batches.
func (r *tableReader) next() (rows *schemas.ExampleRows, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the libraries trust what a file says of itself
			rows, err = nil, wholeFile(r.name, fmt.Errorf("the file is damaged: %v", cause))
		}
	}()
	if r.emitted == r.block.Rows {
		if err := r.readBlock(); err != nil {
			return nil, err
		}
	}
	b := &r.block
	from, to, size := r.emitted, r.emitted, len(r.columnsText)
	for ; to < b.Rows; to++ {
		row := floatRowBytes(b.Cols)
		if len(b.Words) > 0 {
			row += len(b.Words[to])
		}
		if size += row; size > maxBatchBytes && to > from {
			break
		}
	}
	r.emitted = to
	r.batch = schemas.ExampleRows{Rows: to - from, Cols: b.Cols, Columns: r.named, Floats: b.Floats[from*b.Cols : to*b.Cols]}
	if len(b.Words) > 0 {
		r.batch.Words = b.Words[from:to]
	}
	if len(b.Numbers) > 0 {
		r.batch.Numbers = b.Numbers[from:to]
	}
	if len(b.Weights) > 0 {
		r.batch.Weights = b.Weights[from:to]
	}
	return &r.batch, nil
}

// readBlock reads the next rows, at most as many as fit a message without the text of their labels. After the last row it reads
// the file to its end, for its digest, and returns io.EOF.
func (r *tableReader) readBlock() error {
	b := &r.block
	r.read += int64(b.Rows)
	n, err := r.table.begin(min(r.options.BatchRows, (maxBatchBytes-len(r.columnsText))/floatRowBytes(b.Cols)))
	if err != nil {
		return r.fail(-1, err)
	}
	b.Rows, r.emitted = n, 0
	if n == 0 {
		if r.read == 0 {
			return r.fail(-1, errors.New("no rows"))
		}
		if _, err := io.Copy(io.Discard, r.Reader); err != nil {
			return r.fail(-1, err)
		}
		return io.EOF
	}
	if len(b.Floats) < n*b.Cols {
		b.Floats = make([]float32, n*b.Cols)
	}
	b.Words, b.Numbers, b.Weights = b.Words[:0], b.Numbers[:0], b.Weights[:0]
	at := 0
	for _, i := range r.features {
		if err := r.readFeatures(i, at); err != nil {
			return r.fail(i, err)
		}
		at += r.all[i].features()
	}
	if r.label >= 0 {
		if err := r.readLabels(r.label); err != nil {
			return r.fail(r.label, err)
		}
	}
	if r.weight >= 0 {
		if err := r.readWeights(r.weight); err != nil {
			return r.fail(r.weight, err)
		}
	}
	return nil
}

// readFeatures reads a column of the block's features, beginning with feature at.
func (r *tableReader) readFeatures(column, at int) error {
	length := r.all[column].features()
	return r.table.numbers(column, func(i int, v float64) error {
		row, f := i/length, float32(v)
		switch {
		case v != v && r.options.Missing == MissingMean:
		case v != v:
			return r.failAt(row, errors.New("a missing value (examples.missing: mean replaces it)"))
		case f-f != 0: // f-f is 0 for finite f only
			return r.failAt(row, fmt.Errorf("%v is not a finite float32", v))
		}
		r.block.Floats[row*r.block.Cols+at+i%length] = f
		return nil
	})
}

func (r *tableReader) readWeights(column int) error {
	return r.table.numbers(column, func(row int, v float64) error {
		if w := float32(v); w-w != 0 || w < 0 {
			return r.failAt(row, fmt.Errorf("weight %v: expected a finite number ≥ 0", v))
		}
		r.block.Weights = append(r.block.Weights, float32(v))
		return nil
	})
}

func (r *tableReader) readLabels(column int) error {
	if r.all[column].kind == text {
		return r.table.texts(column, func(row int, v []byte, null bool) error {
			word, err := r.word(v, null)
			if err != nil {
				return r.failAt(row, err)
			}
			r.block.Words = append(r.block.Words, word)
			return nil
		})
	}
	return r.table.wholes(column, func(row int, v int64, null bool) error {
		if null {
			return r.failAt(row, errNoLabel)
		}
		if len(r.options.Classes) > 0 {
			if _, ok := r.words[strconv.FormatInt(v, 10)]; !ok {
				return r.failAt(row, fmt.Errorf("label %d is not one of the classes", v))
			}
		}
		r.block.Numbers = append(r.block.Numbers, v)
		return nil
	})
}

var errNoLabel = errors.New("no label")

// word checks a label and returns a string of its own, shared by all rows with that label.
func (r *tableReader) word(v []byte, null bool) (string, error) {
	if word, ok := r.words[string(v)]; ok && !null {
		return word, nil
	}
	switch {
	case null || len(v) == 0:
		return "", errNoLabel
	case len(v) > schemas.MaxLabel || !utf8.Valid(v):
		return "", fmt.Errorf("label %s: expected at most %d bytes of UTF-8", quote(string(v)), schemas.MaxLabel)
	case len(r.options.Classes) > 0:
		return "", fmt.Errorf("label %s is not one of the classes", quote(string(v)))
	}
	if len(r.words) == maxWords {
		clear(r.words)
	}
	word := string(v)
	r.words[word] = word
	return word, nil
}

// openTable opens a table, and a reader of it. Its errors are *FileError.
func openTable(c *content, open func(*content) (table, error), read func(table) (reader, error)) (r reader, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r, err = nil, wholeFile(c.name, fmt.Errorf("the file is damaged: %v", cause))
		}
	}()
	t, err := open(c)
	if err != nil {
		if place, ok := errors.AsType[*FileError](err); ok {
			return nil, place
		}
		return nil, wholeFile(c.name, err)
	}
	return read(t)
}
