package tabular

import (
	"cmp"
	"errors"
	"fmt"
	_ "time/tzdata" // time zones must not depend on the machine

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Kind is the kind of a column's values.
type Kind uint8

const (
	Unread   Kind = iota // unsupported
	Numeric              // floating-point numbers
	Whole                // whole numbers
	Boolean              // as numbers 0 and 1
	Text                 // words, or whole texts
	List                 // of numbers, with a fixed length
	TextList             // lists of texts
	Either               // lists of texts in some rows, texts in others
	Pairs                // lists of index and value: sparse rows
	Moment               // dates or times, formatted as [value.Time] parses them
)

// Field is a column of a table, as its file describes it.
type Field struct {
	Name   string
	Kind   Kind
	Type   string // type name of the file format
	Joined bool   // a text may be a list of words
	Digits bool   // a text column with numbers only, in a file whose texts may be numbers
	Length int    // of a list
	Advice string // how to make an unsupported column readable; "": convert it to numbers
}

// Table is an open file whose schema has the names and types of columns. Row numbers start at 0. Its errors have no
// position, and a Table may panic if the file is damaged.
type Table interface {
	// Fields describes the columns, in order.
	Fields() []Field
	// Begin makes the next n rows current, or fewer at the end of the file. 0 means the end.
	Begin(n int) (int, error)
	// Numbers calls put for each value of a column of numbers or lists in the current rows. i counts them from 0, row by row.
	// A null is NaN.
	Numbers(column int, put func(i int, v float64) error) error
	// Wholes calls put for each value of an integer column in the current rows.
	Wholes(column int, put func(row int, v int64, null bool) error) error
	// Texts calls put for each value of a text column in the current rows, or for formatted numbers and booleans. v is valid
	// during the call.
	Texts(column int, put func(row int, v string, null bool) error) error
}

// wordLists is a table that may have lists of labels.
type wordLists interface {
	// Lists calls put for each list of a column in the current rows, with its texts or formatted integers. A null item is "".
	// null means that there is no list.
	Lists(column int, put func(row int, items []string, null bool) error) error
}

// singleLists is a table that may have lists stored as float32.
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
	// LineOf returns the line number of a current row, from 1.
	LineOf(row int) int
}

// tableReader reads the rows of a table. It reads as many rows at a time as fit into a batch, so batches do not depend on
// the row groups of the file.
type tableReader struct {
	*input.Content // nil for messages
	layout.Layout
	table   Table
	fields  []Field
	read    int64 // number of rows before the block
	block   examples.Rows
	emitted int // number of rows of the block already in batches
	batch   examples.Rows
	cut     examples.SparseRows // of the batch, if the rows are sparse
	texts   examples.SparseRows // word counts of the current rows, if they are mixed
	hashed  []string            // hashed words of the current rows (n × number per row)

	defaultLabel layout.Column // for messages; that of a file is Label
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
		r, err := openTable(c, o.ToPredictWith(want), open)
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

// assignTyped assigns roles to the columns for training.
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

// otherwise returns the advice for a column of a kind that can't be a feature.
func (r *tableReader) otherwise(f Field) string {
	switch {
	case r.Options.Predicts() && f.Kind == Text:
		return ""
	case r.Options.Predicts():
		return f.advised()
	case f.Kind == Text:
		return ": examples.categorical accepts columns of words, examples.columns.drop excludes a column" + f.otherwise()
	}
	return ": exclude the column with examples.columns.drop, or " + cmp.Or(f.Advice, "convert it to a number")
}

// otherwise returns the advice as the last of several.
func (f Field) otherwise() string {
	if f.Advice == "" {
		return ""
	}
	return ", " + f.Advice
}

// advised returns the advice at the end of an error.
func (f Field) advised() string {
	if f.Advice == "" {
		return ""
	}
	return ": " + f.Advice
}

// Advice for unsupported columns.
const (
	AdviseSeconds  = "convert it to a number of seconds"
	AdviseTimes    = "list it under examples.times"
	AdviseEncoding = "write it in another encoding, as pyarrow does without use_byte_stream_split"
)

// fail returns an error at a column; -1: at no particular one.
func (r *tableReader) fail(column int, err error) error {
	if r.Content == nil {
		return r.locate(column, err)
	}
	e, placed := errors.AsType[*input.Error](err)
	if !placed {
		e = input.WholeFile(r.Name, err)
	}
	if column >= 0 && e.Column == "" {
		e.Column, e.Err = r.place(column), r.Advise(column, e.Err)
	}
	if p, ok := r.table.(*partitioned); ok && column >= p.own && p.path[column-p.own].Null {
		e.Err = p.path[column-p.own].NullError(e.Err)
	}
	return e
}

// Reading describes how the columns were read.
func (r *tableReader) Reading() layout.Reading {
	how := r.Layout.Reading()
	how.BooleanLabels = r.Label >= 0 && r.fields[r.Label].Kind == Boolean
	how.MissingValues = r.MissingValues()
	return how
}

// damaged converts a panic to an error, because the libraries do not validate files. It must be deferred.
func damaged(file string, err *error) {
	if cause := recover(); cause != nil {
		*err = input.WholeFile(file, fmt.Errorf("the file is damaged: %v", cause))
	}
}

// IsNumber reports whether values are numbers, or booleans, which count as 0 and 1.
func IsNumber(k Kind) bool { return k == Whole || k == Numeric || k == Boolean }
