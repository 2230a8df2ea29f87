package tabular

import (
	"cmp"
	"errors"
	"fmt"
	_ "time/tzdata" // of zones of times, which must not depend on the machine

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Kind is the kind of values of a table's column.
type Kind uint8

const (
	Unread   Kind = iota // nothing that stagewise reads
	Numeric              // floating-point numbers
	Whole                // whole numbers
	Boolean              // as numbers 0 and 1
	Text                 // words, or whole texts
	List                 // of numbers, as many in each row
	TextList             // lists of texts
	Either               // in some rows lists of texts, in others texts
	Pairs                // lists of index and value: sparse rows
	Moment               // dates or times, whose texts are as [value.Time] reads them
)

// Field is a column of a table, as its file describes it.
type Field struct {
	Name   string
	Kind   Kind
	Type   string // the file's name of its type
	Joined bool   // a text may be a list of words
	Digits bool   // a text that has numbers alone, in a file whose texts may be numbers
	Length int    // of a list
	Advice string // what makes a column that is not read one that is; "": to make it numbers
}

// Table is an open file whose schema names and types its columns. Row numbers are from 0. Its errors are without a place, and
// a Table may panic if the file is damaged.
type Table interface {
	// Fields describes the columns, in their order.
	Fields() []Field
	// Begin makes the next n rows current, or fewer at the end of the file. 0: there are no more.
	Begin(n int) (int, error)
	// Numbers calls put for each value of a column of numbers or lists in the current rows. i counts them from 0, row by row. A
	// null is NaN.
	Numbers(column int, put func(i int, v float64) error) error
	// Wholes calls put for each value of a column of whole numbers in the current rows.
	Wholes(column int, put func(row int, v int64, null bool) error) error
	// Texts calls put for each value of a column of text in the current rows, or for the words of numbers and booleans. v
	// is valid during the call.
	Texts(column int, put func(row int, v string, null bool) error) error
}

// wordLists is a table that may have lists of labels.
type wordLists interface {
	// Lists calls put for each list of a column in the current rows, with its texts or whole numbers as texts. An entry
	// that is null is "". null says that there is no list.
	Lists(column int, put func(row int, items []string, null bool) error) error
}

// singleLists is a table that may have lists of float32 as they are in memory.
type singleLists interface {
	// Singles calls put for each list of a column in the current rows, or returns false if some have another type or a null.
	Singles(column int, put func(row int, values []float32) error) (ok bool, err error)
}

// RaggedAt returns the error of a row whose list differs in length from the first row's.
func RaggedAt(row int64, length int) error {
	return fmt.Errorf("row %d, counted from 0: the list does not have %d values, unlike row 0, which does", row, length)
}

// linedTable is a table whose rows are lines.
type linedTable interface {
	// LineOf returns the number of the line of a current row, from 1.
	LineOf(row int) int
}

// tableReader reads the rows of a table. It reads as many rows at a time as a batch may have, so batches do not depend on how the
// file groups its rows.
type tableReader struct {
	*input.Content // nil: the rows are of messages
	layout.Layout
	table   Table
	fields  []Field
	read    int64 // rows before the block
	block   examples.Rows
	emitted int // rows of the block that were in a batch
	batch   examples.Rows
	cut     examples.SparseRows // of the batch, if the rows are sparse
	texts   examples.SparseRows // counts of words of the current rows, if they are mixed
	hashed  []string            // words of the current rows that are hashed (n × those of a row)

	defaultLabel layout.Column // of messages; a file's is Label
}

// Label is the default column of the label.
const Label = "label"

// Format returns a format whose files are tables.
func Format(f format.Format, open func(*input.Content, layout.Options) (Table, error)) format.Format {
	f.Files, f.Label = 1, Label
	f.Keys = []string{"label", "label_separator", "label_columns", "targets", "weight", "text", "words.vocabulary", "words.columns",
		"words.phrases", "columns.use", "columns.drop", "categorical", "times", "missing", "missing_values"}
	f.Open = func(files []*input.Content, o layout.Options) (format.Reader, error) {
		r, err := openTable(files[0], o, open)
		if err != nil {
			return nil, err
		}
		if err := r.assignTyped(); err != nil {
			return nil, err
		}
		return r, r.Lay()
	}
	f.Words = func(c *input.Content, o layout.Options, found *layout.FoundWords) error {
		r, err := openTable(c, o, open)
		if err != nil {
			return err
		}
		if err := r.assignTyped(); err != nil {
			return err
		}
		return r.addWords(found)
	}
	f.Spread = func(c *input.Content, o layout.Options, found layout.Spreads) error {
		r, err := openTable(c, o, open)
		if err != nil {
			return err
		}
		if err := r.assignTyped(); err != nil {
			return err
		}
		return r.addSpread(found)
	}
	f.View = func(c *input.Content, o layout.Options, v format.Viewer) error {
		r, err := openTable(c, o, open)
		if err != nil {
			return err
		}
		return r.view(v)
	}
	f.Inspect = func(opened format.Reader) error {
		r := opened.(*tableReader)
		return r.InspectLabels(r.eachLabel)
	}
	f.OpenFeatures = func(c *input.Content, o layout.Options, want layout.Features) (format.Reader, error) {
		r, err := openTable(c, o, open)
		if err != nil {
			return nil, err
		}
		switch {
		case want.Sparse:
			err = r.laySparse(want)
		case want.Columns != nil && !r.HasList(want.Width):
			err = r.LayByName(want.Columns, "")
		default:
			err = r.LayByPlace(want)
		}
		if err != nil {
			return nil, err
		}
		return r, r.checkTypes()
	}
	return f
}

// openTable opens a table. Its columns have no roles yet.
func openTable(c *input.Content, o layout.Options, open func(*input.Content, layout.Options) (Table, error)) (r *tableReader, err error) {
	defer damaged(c.Name, &err)
	t, err := open(c, o)
	if err != nil {
		if place, ok := errors.AsType[*input.Error](err); ok {
			return nil, place
		}
		return nil, input.WholeFile(c.Name, err)
	}
	t = withPath(t, c.Path)
	r = &tableReader{Content: c, table: t, fields: t.Fields()}
	r.Layout = layout.New(o, Label, len(r.fields), r.fail)
	r.Names = make([]string, len(r.fields))
	for i, f := range r.fields {
		if err := r.CheckText(f.Name); err != nil {
			return nil, input.WholeFile(c.Name, fmt.Errorf("the name of column %d: %w", i, err))
		}
		r.Names[i], r.Cells[i].List, r.Cells[i].Length = f.Name, f.Kind == List, f.Length
	}
	return r, nil
}

// assignTyped gives each column its role for training.
func (r *tableReader) assignTyped() error {
	if err := r.Assign(); err != nil {
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
	for i, c := range r.Cells {
		f := r.fields[i]
		isNumber := IsNumber(f.Kind) || f.Digits
		isText := f.Kind == Text || isNumber
		switch {
		case c.Role == layout.Label && r.Options.Several() && (f.Kind == List || f.Kind == TextList || f.Kind == Either):
		case c.Role == layout.Indicator && !isText:
			return r.fail(i, fmt.Errorf("a column of a label of type %s: expected booleans, or numbers that are 0 or 1", f.Type))
		case c.Role == layout.Label && !isText:
			return r.fail(i, fmt.Errorf("labels of type %s: expected text, numbers or booleans%s", f.Type, f.advised()))
		case c.Role == layout.Target && !isNumber:
			return r.fail(i, fmt.Errorf("numbers to predict of type %s: expected a number in each row%s", f.Type, f.advised()))
		case (c.Role == layout.Category || c.Role == layout.Hashed) && !isText:
			return r.fail(i, fmt.Errorf("words of type %s: expected text, numbers or booleans%s", f.Type, f.advised()))
		case c.Role == layout.Time && f.Kind != Moment && !isText:
			return r.fail(i, fmt.Errorf("times of type %s: expected dates, times, text or numbers%s", f.Type, f.advised()))
		case c.Role == layout.Counted && f.Kind != Text && !f.Joined:
			return r.fail(i, fmt.Errorf("texts of type %s: expected text%s", f.Type, f.advised()))
		case c.Role == layout.Weight && !isNumber:
			return r.fail(i, fmt.Errorf("weights of type %s: expected numbers%s", f.Type, f.advised()))
		case c.Role == layout.Feature && !isNumber && f.Kind != List:
			return r.fail(i, fmt.Errorf("type %s: features are numbers, booleans, or one list of numbers%s", f.Type, r.otherwise(f)))
		}
		if c.Role.IsFeature() {
			features++
		}
		if c.Role == layout.Feature && c.List {
			lists = i
		}
	}
	if lists >= 0 && features > 1 {
		return r.fail(lists, fmt.Errorf("a list of features and %d other columns: "+
			"expected one list of all features, or a column for each", features-1))
	}
	return nil
}

// otherwise says what to do with a column of this kind that can't be a feature.
func (r *tableReader) otherwise(f Field) string {
	switch {
	case r.Options.Predicts():
		return f.advised()
	case f.Kind == Text:
		return ": examples.categorical accepts columns of words, examples.columns.drop excludes a column"
	}
	return ": exclude the column with examples.columns.drop, or " + cmp.Or(f.Advice, "convert it to a number")
}

// advised is the advice at the end of an error.
func (f Field) advised() string {
	if f.Advice == "" {
		return ""
	}
	return ": " + f.Advice
}

// What makes columns that are not read ones that are.
const (
	AdviseSeconds  = "convert it to a number of seconds"
	AdviseTimes    = "list it under examples.times"
	AdviseEncoding = "write it in another encoding, as pyarrow does without use_byte_stream_split"
)

// fail returns an error at a column; -1: at no particular column.
func (r *tableReader) fail(column int, err error) error {
	if r.Content == nil {
		return r.locate(column, err)
	}
	e, placed := errors.AsType[*input.Error](err)
	if !placed {
		e = input.WholeFile(r.Name, err)
	}
	if column >= 0 && e.Column == "" {
		e.Column = r.place(column)
	}
	return e
}

// Reading has the words for missing values only if there are columns of words or labels. Labels that are booleans once were 0 and 1.
func (r *tableReader) Reading() layout.Reading {
	how := r.Layout.Reading()
	how.BooleanLabels = r.Label >= 0 && r.fields[r.Label].Kind == Boolean
	if how.Categories != nil || r.Label >= 0 {
		how.MissingValues = r.MissingValues()
	}
	return how
}

// damaged makes an error of a panic: the libraries trust what a file says of itself. It must be deferred.
func damaged(file string, err *error) {
	if cause := recover(); cause != nil {
		*err = input.WholeFile(file, fmt.Errorf("the file is damaged: %v", cause))
	}
}

// IsNumber reports whether values are numbers, or booleans, which count as 0 and 1.
func IsNumber(k Kind) bool { return k == Whole || k == Numeric || k == Boolean }
