package ingest

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// kind is what the values of a column of a table are.
type kind uint8

const (
	unread  kind = iota // nothing that stagewise reads, such as a date
	numeric             // floating-point numbers
	whole               // whole numbers; booleans are 0 and 1
	text
	list     // of numbers, as many in each row
	textList // lists of texts
	pairs    // lists of index and value: sparse rows
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
	texts(column int, put func(row int, v string, null bool) error) error
}

// wordLists is a table that may have lists of labels.
type wordLists interface {
	// lists calls put for each list of a column in the current rows, with its texts or whole numbers as texts. An entry that is null is "". null says
	// that there is no list.
	lists(column int, put func(row int, items []string, null bool) error) error
}

// singleLists is a table that may have lists of float32 as they are in memory.
type singleLists interface {
	// singles calls put for each list of a column in the current rows, or returns false if some have another type or a null.
	singles(column int, put func(row int, values []float32) error) (ok bool, err error)
}

// raggedAt returns the error of a row whose list has another length than that of the first row.
func raggedAt(row int64, length int) error {
	return fmt.Errorf("row %d, counted from 0: the list does not have %d values, as that of row 0 has", row, length)
}

// linedTable is a table whose rows are lines.
type linedTable interface {
	// lineOf returns the number of the line of a current row, from 1.
	lineOf(row int) int
}

// tableReader reads the rows of a table. It reads as many rows at a time as a batch may have, so batches do not depend on how the
// file groups its rows.
type tableReader struct {
	*content
	layout
	table   table
	fields  []field
	read    int64 // rows before the block
	block   schemas.ExampleRows
	emitted int // rows of the block that were in a batch
	batch   schemas.ExampleRows
	cut     schemas.SparseRows // of the batch, if the rows are sparse
}

// tableLabel is the column of the label, if no key says another.
const tableLabel = "label"

// tableFormat returns a format whose files are tables.
func tableFormat(f format, open func(*content, Options) (table, error)) format {
	f.files, f.label = 1, tableLabel
	f.keys = []string{"label", "label_separator", "label_columns", "targets", "weight", "text", "words.vocabulary", "words.columns", "words.phrases", "columns.use", "columns.drop", "categorical", "missing", "missing_values"}
	f.open = func(files []*content, o Options) (reader, error) {
		r, err := openTable(files[0], o, open)
		if err != nil {
			return nil, err
		}
		if err := r.assignTyped(); err != nil {
			return nil, err
		}
		return r, r.lay()
	}
	f.words = func(c *content, o Options, found *foundWords) error {
		r, err := openTable(c, o, open)
		if err != nil {
			return err
		}
		if err := r.assignTyped(); err != nil {
			return err
		}
		return r.addWords(found)
	}
	f.inspect = func(opened reader) error {
		r := opened.(*tableReader)
		return r.inspectLabels(r.eachLabel)
	}
	f.openFeatures = func(c *content, o Options, want Features) (reader, error) {
		r, err := openTable(c, o, open)
		if err != nil {
			return nil, err
		}
		switch {
		case want.Sparse:
			err = r.laySparse()
		case want.Columns != nil && !r.hasList(want.Width):
			err = r.layByName(want.Columns, "")
		default:
			err = r.layByPlace(want)
		}
		if err != nil {
			return nil, err
		}
		return r, r.checkTypes()
	}
	return f
}

// openTable opens a table. Its columns have no roles yet.
func openTable(c *content, o Options, open func(*content, Options) (table, error)) (r *tableReader, err error) {
	defer damaged(c.name, &err)
	t, err := open(c, o)
	if err != nil {
		if place, ok := errors.AsType[*FileError](err); ok {
			return nil, place
		}
		return nil, wholeFile(c.name, err)
	}
	r = &tableReader{content: c, table: t, fields: t.fields()}
	r.layout = newLayout(o, tableLabel, len(r.fields), r.fail)
	r.names = make([]string, len(r.fields))
	for i, f := range r.fields {
		r.names[i], r.cells[i].list, r.cells[i].length = f.name, f.kind == list, f.length
	}
	return r, nil
}

// assignTyped gives each column its role for training.
func (r *tableReader) assignTyped() error {
	if err := r.assign(); err != nil {
		return err
	}
	if err := r.findSparse(); err != nil {
		return err
	}
	return r.checkTypes()
}

// checkTypes returns an error for a column whose type does not suit its role.
func (r *tableReader) checkTypes() error {
	lists, features := -1, 0
	for i, c := range r.cells {
		f := r.fields[i]
		isText, isNumber := f.kind == text || f.kind == whole, f.kind == numeric || f.kind == whole
		switch {
		case c.role == label && r.options.several() && (f.kind == list || f.kind == textList):
		case c.role == indicator && f.kind != whole:
			return r.fail(i, fmt.Errorf("a column of a label of type %s: expected booleans, or whole numbers that are 0 or 1", f.typ))
		case c.role == label && !isText:
			return r.fail(i, fmt.Errorf("labels of type %s: expected text or whole numbers", f.typ))
		case c.role == target && !isNumber:
			return r.fail(i, fmt.Errorf("numbers to predict of type %s: expected a number in each row", f.typ))
		case c.role == category && !isText:
			return r.fail(i, fmt.Errorf("words of type %s: expected text or whole numbers", f.typ))
		case c.role == counted && f.kind != text:
			return r.fail(i, fmt.Errorf("texts of type %s: expected text", f.typ))
		case c.role == weight && !isNumber:
			return r.fail(i, fmt.Errorf("weights of type %s: expected numbers", f.typ))
		case c.role == feature && !isNumber && f.kind != list:
			return r.fail(i, fmt.Errorf("type %s: features are numbers, booleans, or one list of numbers%s", f.typ, r.otherwise(f.kind)))
		}
		if c.role == feature || c.role == category {
			features++
		}
		if c.role == feature && c.list {
			lists = i
		}
	}
	if lists >= 0 && features > 1 {
		return r.fail(lists, fmt.Errorf("a list of features beside %d other columns: expected one list of all features, or a column for each", features-1))
	}
	return nil
}

// otherwise says what to do with a column of this kind that can't be a feature.
func (r *tableReader) otherwise(k kind) string {
	switch {
	case r.options.predicts:
		return ""
	case k == text:
		return ": examples.categorical takes columns of words, examples.columns.drop leaves a column out"
	}
	return ": leave the column out with examples.columns.drop, or make it a number"
}

// fail returns an error at a column; -1: at no particular column.
func (r *tableReader) fail(column int, err error) error {
	e, placed := errors.AsType[*FileError](err)
	if !placed {
		e = wholeFile(r.name, err)
	}
	if column >= 0 && e.Column == "" {
		e.Column = strconv.Itoa(column) + " (" + quote(r.fields[column].name) + ")"
	}
	return e
}

// reading has the words for missing values only if there are columns of words.
func (r *tableReader) reading() reading {
	how := r.layout.reading()
	if how.Categories != nil {
		how.MissingValues = r.missingValues()
	}
	return how
}

// damaged makes an error of a panic: the libraries trust what a file says of itself. It must be deferred.
func damaged(file string, err *error) {
	if cause := recover(); cause != nil {
		*err = wholeFile(file, fmt.Errorf("the file is damaged: %v", cause))
	}
}
