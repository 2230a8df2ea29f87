package format

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	_ "time/tzdata" // time zones must not depend on the machine

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Table is an open file of a table.
type Table struct {
	tabular.Source
	HasNames bool // columns have names
	Line     int  // of the names, or else of the first row; 0: rows are not lines
	// LabelOf converts a text to a label. nil means [value.Label].
	LabelOf func(text string) string
	// Describe adds to the description of how the columns are read. nil adds nothing.
	Describe func(*layout.Reading)
}

// OpenTable opens a table. want describes the rows to predict; nil means that rows are for training.
type OpenTable func(c *input.Content, o layout.Options, want *layout.Features) (Table, error)

// Tables returns a format whose files are tables.
func Tables(f Format, open OpenTable) Format {
	f.Files = 1
	assigned := func(c *input.Content, o layout.Options, all *Collected) (*tableReader, error) {
		r, err := openTable(c, o, nil, f, open)
		if err == nil {
			all.begin(&r.Layout)
			err = r.assign(all)
		}
		return r, err
	}
	f.Open = func(files []*input.Content, o layout.Options, all *Collected) (Reader, error) {
		r, err := assigned(files[0], o, all)
		if err == nil {
			err = r.Lay()
		}
		return r, err
	}
	f.Words = func(c *input.Content, o layout.Options, found *layout.FoundWords, all *Collected) error {
		r, err := assigned(c, o, all)
		if err != nil {
			return err
		}
		return r.addWords(found)
	}
	f.Spread = func(c *input.Content, o layout.Options, found layout.Spreads, all *Collected) error {
		r, err := assigned(c, o, all)
		if err != nil {
			return err
		}
		r.addSpreads(found)
		return nil
	}
	f.View = func(c *input.Content, o layout.Options, v Viewer) error {
		r, err := openTable(c, o, nil, f, open)
		if err != nil {
			return err
		}
		return r.view(v)
	}
	f.Inspect = func(opened Reader) error {
		r := opened.(*tableReader)
		return r.InspectLabels(r.eachLabel)
	}
	f.OpenFeatures = func(c *input.Content, o layout.Options, want layout.Features) (Reader, error) {
		r, err := openTable(c, o.ToPredictWith(want), &want, f, open)
		if err == nil {
			err = r.layFeatures(want)
		}
		if err != nil {
			return nil, err
		}
		return r, r.checkTypes()
	}
	return f
}

// tableReader reads the rows of a table, block by block. Batches do not depend on the blocks of the file.
type tableReader struct {
	*input.Content
	columns
	table  Table
	source tabular.Source // of the table, with the columns of its path
	wanted []bool
	block  tabular.Block
	read   int64 // number of rows before the block
	ended  bool

	filled examples.Rows // rows read; those before given were returned
	sizes  []int         // of the filled rows in a message
	given  int

	presences []layout.Presence // by column
	lacks     []bool            // of the rows of the block, for one column
	lost      map[string]int64
}

// columns are the columns of rows, with their roles.
type columns struct {
	layout.Layout
	fields []tabular.Field
}

// openTable opens a table. Its columns have no roles yet.
func openTable(c *input.Content, o layout.Options, want *layout.Features, f Format, open OpenTable) (r *tableReader, err error) {
	defer damaged(c.Name, &err)
	t, err := open(c, o, want)
	if err != nil {
		if place, ok := errors.AsType[*input.Error](err); ok {
			return nil, place
		}
		return nil, input.WholeFile(c.Name, err)
	}
	r = &tableReader{Content: c, table: t, source: t.Source}
	if t.HasNames {
		r.source = withPath(t.Source, c.Path)
	}
	r.fields = r.source.Fields()
	r.Layout = layout.New(o, f.Label, len(r.fields), r.fail)
	if r.Encoded = f.IsText; t.LabelOf != nil {
		r.LabelOf = t.LabelOf
		r.KeepClasses()
	}
	if t.HasNames {
		r.Names = make([]string, len(r.fields))
	}
	for i, f := range r.fields {
		if err := r.CheckText(f.Name); err != nil {
			return nil, r.fail(-1, fmt.Errorf("the name of column %d: %w", i, err))
		}
		if t.HasNames {
			r.Names[i] = f.Name
		}
		r.Cells[i].List, r.Cells[i].Length = f.Kind == tabular.List, f.Length
		r.Cells[i].Whole, r.Cells[i].Separated = f.Kind == tabular.Whole, f.Kind == tabular.Text || tabular.IsNumber(f.Kind)
	}
	return r, nil
}

// assign assigns roles to the columns for training.
func (r *tableReader) assign(all *Collected) error {
	if err := r.Assign(); err != nil {
		return err
	}
	all.ignore(&r.Layout)
	if err := r.findSparse(); err != nil {
		return err
	}
	return r.checkTypes()
}

// findSparse assigns the role of the column of sparse rows, if there is one. There are no other features then.
func (c *columns) findSparse() error {
	features := 0
	for i, cell := range c.Cells {
		if !cell.Role.IsFeature() {
			continue
		}
		if features++; cell.Role == layout.Feature && c.fields[i].Kind == tabular.Pairs {
			c.Sparse = i
		}
	}
	switch {
	case c.Sparse < 0:
		return nil
	case features > 1:
		return c.Refuse(c.Sparse, fmt.Errorf("sparse rows and %d other columns: exclude those with examples.columns.drop, or "+
			"list only this one under examples.columns.use", features-1))
	}
	c.Cells[c.Sparse].Role = layout.Entries
	return nil
}

// layFeatures assigns the columns of rows to predict to the features of a model.
func (r *tableReader) layFeatures(want layout.Features) error {
	switch {
	case !want.Sparse && (r.Options.Text != "" || r.Options.Mixed()):
		return input.WholeFile(r.Name, fmt.Errorf("texts: the model was trained on rows of %d features", want.Width))
	case want.Sparse && r.Options.Mixed():
		return r.LayByName(want, "")
	case want.Sparse && (r.Options.Text != "" || !r.isDigits()):
		return r.laySparse()
	case want.Columns != nil && r.Names != nil && !r.HasList(want.Width):
		otherwise := ""
		if r.table.Line > 0 && r.Options.Header == nil {
			otherwise = " (if the first row is an example: --header=false)"
		}
		return r.LayByName(want, otherwise)
	}
	return r.LayByPlace(want)
}

// isDigits reports whether all columns have text that may be numbers, as those of CSV: a row of them is one of a sparse model, too.
func (r *tableReader) isDigits() bool {
	return !slices.ContainsFunc(r.fields, func(f tabular.Field) bool { return !f.Digits })
}

// laySparse finds the column of texts or of sparse rows.
func (r *tableReader) laySparse() error {
	r.IgnoreAll()
	if r.Options.Text != "" && len(r.Cells) == 1 && (r.Names == nil || r.table.Line > 0) { // the only one has the texts
		r.Text, r.Cells[0].Role = 0, layout.Counted
		return nil
	}
	if r.Options.Text != "" {
		return r.AssignText()
	}
	for i, f := range r.fields {
		switch {
		case f.Kind != tabular.Pairs:
		case r.Sparse >= 0:
			return r.fail(i, errors.New("another column of sparse rows: expected one"))
		default:
			r.Sparse = i
		}
	}
	if r.Sparse < 0 {
		return r.fail(-1, errors.New("no column of sparse rows, which the model was trained on: expected lists of index and value, or maps"))
	}
	r.Cells[r.Sparse].Role = layout.Entries
	return nil
}

// checkTypes returns an error for a column whose type does not suit its role.
func (c *columns) checkTypes() error {
	lists, features := -1, 0
	for i, cell := range c.Cells {
		f := c.fields[i]
		isNumber := tabular.IsNumber(f.Kind) || f.Digits
		isText := f.Kind == tabular.Text || isNumber
		isList := f.Kind == tabular.List || f.Kind == tabular.TextList
		ok, want := true, ""
		switch cell.Role {
		case layout.Label:
			ok, want = isText || isList && c.Options.Several(), "labels of type %s: expected text, numbers or booleans"
		case layout.Indicator:
			ok, want = isText, "a column of a label of type %s: expected booleans, or numbers that are 0 or 1"
		case layout.Target:
			ok, want = isNumber, "numbers to predict of type %s: expected a number in each row"
		case layout.Category, layout.Hashed:
			ok, want = isText, "words of type %s: expected text, numbers or booleans"
		case layout.Time:
			ok, want = isText || f.Kind == tabular.Moment, "times of type %s: expected dates, times, text or numbers"
		case layout.Counted:
			ok, want = f.Kind == tabular.Text || f.Kind == tabular.TextList, "texts of type %s: expected text"
		case layout.Weight:
			ok, want = isNumber, "weights of type %s: expected numbers"
		case layout.Feature:
			if ok = isNumber || f.Kind == tabular.List; !ok {
				want, f.Advice = "type %s: features are numbers, booleans, or one list of numbers", c.otherwise(f)
			}
		}
		if !ok {
			if err := c.Refuse(i, fmt.Errorf(want+"%s", f.Type, advised(f))); err != nil {
				return err
			}
			continue
		}
		if cell.Role.IsFeature() {
			features++
		}
		if cell.Role == layout.Feature && cell.List {
			lists = i
		}
	}
	if lists >= 0 && features > 1 {
		return c.Refuse(lists, fmt.Errorf("a list of features and %d other columns: "+
			"expected one list of all features, or a column for each", features-1))
	}
	return nil
}

// otherwise returns the advice for a column of a kind that can't be a feature.
func (c *columns) otherwise(f tabular.Field) string {
	switch {
	case c.Options.Predicts() && f.Kind == tabular.Text:
		return ""
	case c.Options.Predicts():
		return f.Advice
	case f.Kind == tabular.Text && f.Advice != "":
		return "examples.categorical accepts columns of words, examples.columns.drop excludes a column, " + f.Advice
	case f.Kind == tabular.Text:
		return "examples.categorical accepts columns of words, examples.columns.drop excludes a column"
	}
	return "exclude the column with examples.columns.drop, or " + cmp.Or(f.Advice, "convert it to a number")
}

// advised returns the advice of a column at the end of an error.
func advised(f tabular.Field) string {
	if f.Advice == "" {
		return ""
	}
	return ": " + f.Advice
}

// place formats the position of a column for errors.
func (c *columns) place(column int) string {
	if c.Names == nil {
		return strconv.Itoa(column)
	}
	return strconv.Itoa(column) + " (" + value.Quote(c.Names[column]) + ")"
}

// labelOf returns the text of the labels of a row, which its size depends on.
func labelOf(rows *examples.Rows, row int) string {
	switch {
	case len(rows.Words) > 0:
		return rows.Words[row]
	case len(rows.LabelLists) > 0:
		return strings.Join(rows.LabelLists[row], ",")
	}
	return ""
}

// sizeOf returns the size of a filled row in a message.
func (c *columns) sizeOf(rows *examples.Rows, row int) (int, error) {
	values := 0
	if rows.Sparse != nil {
		indices, _ := rows.Sparse.Row(row)
		values = len(indices)
	}
	return c.RowBytes(labelOf(rows, row), values)
}

// fail returns an error at a column; -1: at no particular one.
func (r *tableReader) fail(column int, err error) error {
	e, placed := errors.AsType[*input.Error](err)
	if !placed {
		e = input.WholeFile(r.Name, err)
		e.Line = r.table.Line
	}
	if column >= 0 && e.Column == "" {
		e.Column = r.place(column)
	}
	if p, ok := r.source.(*partitioned); ok && column >= p.own && p.path[column-p.own].Null {
		e.Err = p.path[column-p.own].NullError(e.Err)
	}
	return e
}

// failAt returns an error at a value of the block.
func (r *tableReader) failAt(t layout.Trouble) error {
	e := &input.Error{File: r.Name, Line: r.block.Line(t.Row, t.Column), Offset: -1, Err: t.Err}
	if e.Line == 0 {
		e.Err = fmt.Errorf("row %d, counted from 0: %w", r.read+int64(t.Row), t.Err)
	}
	if word, ok := errors.AsType[value.NumberError](t.Err); ok && e.Line == 1 && r.Names == nil &&
		!layout.DecimalComma.MatchString(string(word)) {
		e.Err = fmt.Errorf("%w (if this is a header: set %s)", word, r.Options.Key("header"))
	}
	return r.fail(t.Column, e)
}

// Reading describes how the columns were read.
func (r *tableReader) Reading() layout.Reading {
	how := r.Layout.Reading()
	how.BooleanLabels = r.Label >= 0 && r.fields[r.Label].Kind == tabular.Boolean
	how.MissingValues = r.MissingValues()
	if r.table.Describe != nil {
		r.table.Describe(&how)
	}
	return how
}

// damaged converts a panic to an error, because the libraries do not validate files. It must be deferred.
func damaged(file string, err *error) {
	if cause := recover(); cause != nil {
		*err = input.WholeFile(file, fmt.Errorf("the file is damaged: %v", cause))
	}
}

// blockValues is the number of values of a block: few enough for a processor's cache, and enough that the cost of a column is
// small.
const blockValues = 1 << 15

// next reads the next block, of at most n rows, and returns io.EOF after the last.
func (r *tableReader) next(n int) (err error) {
	defer damaged(r.Name, &err)
	r.read += int64(r.block.Rows)
	r.block.Rows = 0
	err = r.source.Read(max(1, min(n, blockValues/max(1, len(r.fields), r.Features))), r.wanted, &r.block)
	if of, ok := errors.AsType[*tabular.ColumnError](err); ok {
		return r.fail(of.Column, of.Err)
	} else if err != nil {
		return r.fail(-1, err)
	}
	if r.block.Rows > 0 {
		return nil
	}
	if r.read == 0 {
		return r.fail(-1, input.EmptyError(r.emptiness()))
	}
	return io.EOF
}

// emptiness describes a table without rows.
func (r *tableReader) emptiness() string {
	if r.table.Line > 0 && r.Names != nil {
		return "no row follows the header"
	}
	return "no rows"
}

// Next returns as many of the next rows as fit into a message.
func (r *tableReader) Next() (*examples.Rows, error) {
	size, n := len(r.TableText), 0
	for {
		for ; n < len(r.sizes)-r.given && n < r.Options.BatchRows; n++ {
			if size += r.sizes[r.given+n]; size > layout.MaxBatchBytes {
				return r.give(n), nil
			}
		}
		if n == r.Options.BatchRows || size+r.leastBytes() > layout.MaxBatchBytes {
			return r.give(n), nil
		}
		switch err := r.fill(n); {
		case err == io.EOF && n > 0:
			return r.give(n), nil
		case err == errCollected:
			size, n = len(r.TableText), 0
		case err != nil:
			return nil, err
		}
	}
}

// give returns the next n rows that are filled.
func (r *tableReader) give(n int) *examples.Rows {
	batch := r.filled.Slice(r.given, r.given+n)
	r.given += n
	return batch
}

// fill fills the rows of the next block, for a batch that has n rows already.
func (r *tableReader) fill(n int) error {
	if r.ended {
		return io.EOF
	}
	r.filled.Drop(r.given)
	r.sizes = r.sizes[:copy(r.sizes, r.sizes[r.given:])]
	if r.given = 0; r.wanted == nil {
		r.wanted = r.Wanted()
	}
	fit := (layout.MaxBatchBytes - len(r.TableText)) / r.leastBytes()
	if err := r.next(max(1, min(r.Options.BatchRows, fit)-n)); err == io.EOF {
		r.ended = true
		if _, err := io.Copy(io.Discard, r.Reader); err != nil { // for its digest
			return r.fail(-1, err)
		}
		return io.EOF
	} else if err != nil {
		return err
	}
	if troubles := r.Fill(&r.block, &r.filled); troubles != nil {
		return r.collect(troubles)
	}
	r.see()
	for row := r.filled.Rows - r.block.Rows; row < r.filled.Rows; row++ {
		bytes, err := r.sizeOf(&r.filled, row)
		if err != nil {
			return r.failAt(layout.Trouble{Row: row - (r.filled.Rows - r.block.Rows), Column: max(r.Label, r.Text), Err: err})
		}
		r.sizes = append(r.sizes, bytes)
	}
	return nil
}

// see adds the rows of the block to those that lack a column, although most earlier rows had it.
func (r *tableReader) see() {
	if r.presences == nil {
		r.presences, r.lost = make([]layout.Presence, len(r.Cells)), map[string]int64{}
	}
	for at := range r.Cells {
		if r.Options.Predicts() || !r.Watched(at) {
			continue
		}
		r.lacks = r.WithoutValue(r.lacks[:0], &r.block, &r.filled, at)
		if lacking, gone := r.presences[at].See(r.lacks); gone {
			r.lost[r.NameOf(at)] += int64(lacking)
		}
	}
}

// Lost implements [Loser].
func (r *tableReader) Lost() map[string]int64 { return r.lost }

// errCollected means that errors were collected, and the rows before them were dropped.
var errCollected = errors.New("errors of columns were collected")

// collect collects the errors of a block. It returns the first one, unless others are read too.
func (r *tableReader) collect(troubles []layout.Trouble) error {
	for _, t := range troubles {
		if err := r.Collect(t.Column, r.failAt(t)); err != nil {
			return err
		}
	}
	r.filled, r.sizes, r.given = examples.Rows{}, nil, 0
	if left := r.Fill(&r.block, &r.filled); left != nil { // values of columns with missing ones
		return r.collect(left)
	}
	r.filled = examples.Rows{}
	return errCollected
}

// leastBytes returns the size of a row in a message without its label and sparse values.
func (r *tableReader) leastBytes() int { return layout.FloatRowBytes(r.Features) + r.TargetBytes() }

// aheadRows is the number of rows read at a time if only some columns are read.
const aheadRows = 1024

// addWords adds the words of the categorical columns and of the texts.
func (r *tableReader) addWords(found *layout.FoundWords) error {
	r.wanted = r.Wanted()
	for rows := 0; !found.Enough(rows); rows += r.block.Rows {
		if err := r.next(aheadRows); err == io.EOF || errors.As(err, new(input.EmptyError)) {
			return nil
		} else if err != nil {
			return err
		}
		for _, t := range r.AddWords(&r.block, found) {
			if err := r.Collect(t.Column, r.failAt(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSpreads adds the numbers and the times of the first rows. It ignores errors, which are reported when all rows are read.
func (r *tableReader) addSpreads(found layout.Spreads) {
	r.wanted = r.Wanted()
	for rows := 0; rows < layout.OffsetRows; rows += r.block.Rows {
		if r.next(min(aheadRows, layout.OffsetRows-rows)) != nil {
			return
		}
		r.AddSpreads(&r.block, found)
		r.AddAges(&r.block, found)
	}
}

// eachLabel calls put for the labels of the first rows, until it returns false.
func (r *tableReader) eachLabel(put func(label string) bool) error {
	r.wanted = make([]bool, len(r.fields))
	r.wanted[r.Label] = true
	for {
		if err := r.next(aheadRows); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for row := range r.block.Rows {
			cell := r.block.Cell(row, r.Label)
			text, err := cell.Text()
			if err != nil || !cell.Null() && !put(strings.TrimSpace(text)) {
				return err
			}
		}
	}
}

// view shows the columns and cells of a table.
func (r *tableReader) view(v Viewer) error {
	shown := make([]Column, len(r.fields))
	r.wanted = make([]bool, len(r.fields))
	for at, f := range r.fields {
		number := tabular.IsNumber(f.Kind) || f.Digits
		r.wanted[at] = number || f.Kind == tabular.Text
		shown[at] = Column{Name: f.Name, Type: f.Type, Numbers: number, Words: r.wanted[at], List: f.Kind == tabular.List}
	}
	v.Columns(shown)
	for {
		if err := r.next(aheadRows); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for at := range shown {
			for row := 0; row < r.block.Rows && r.wanted[at]; row++ {
				cell := r.block.Cell(row, at)
				text, err := cell.Text()
				if err == nil {
					err = r.CheckText(text)
				}
				if err != nil {
					return r.failAt(layout.Trouble{Row: row, Column: at, Err: err})
				}
				v.Cell(at, text)
			}
		}
	}
}
