package format

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// tableReader reads the rows of a table, block by block. Batches do not depend on the blocks of the file.
type tableReader struct {
	*input.Content
	layout.Layout
	table  Table
	own    int // number of columns of the file; those of its path follow
	path   []input.Partition
	wanted []bool
	block  tabular.Block // rows that are in no batch yet
	read   int64         // number of rows before the block
	ended  bool
	batch  layout.Batch

	presences []layout.Presence // by column
	lost      map[string]int64
}

// open opens a table. Its columns have no roles yet.
func (f Format) open(c *input.Content, o layout.Options, want *layout.Features) (r *tableReader, err error) {
	defer damaged(c.Name, &err)
	t, err := f.Table(c, o, want)
	if err != nil {
		if place, ok := errors.AsType[*input.Error](err); ok {
			return nil, place
		}
		return nil, input.WholeFile(c.Name, err)
	}
	r = &tableReader{Content: c, table: t}
	fields := r.addPath(t.Fields())
	r.presences = make([]layout.Presence, len(fields))
	r.Layout = layout.New(o, f.Label, fields, t.HasNames, r.fail)
	if r.Encoded = f.IsText; t.LabelOf != nil {
		r.LabelOf = t.LabelOf
		r.KeepClasses()
	}
	for i, f := range fields {
		if err := r.CheckText(f.Name); err != nil {
			return nil, r.fail(-1, fmt.Errorf("the name of column %d: %w", i, err))
		}
	}
	return r, nil
}

// openRoles opens a table for training, with the roles of its columns.
func (f Format) openRoles(c *input.Content, o layout.Options, all *Collected) (*tableReader, error) {
	r, err := f.open(c, o, nil)
	if err != nil || o.Mode == layout.Describing {
		return r, err
	}
	all.begin(&r.Layout)
	if err := r.Assign(); err != nil {
		return nil, err
	}
	all.ignore(&r.Layout)
	return r, r.CheckTypes()
}

// openTable opens a table for training, or to predict if there are features that a model wants.
func (f Format) openTable(c *input.Content, o layout.Options, want *layout.Features, all *Collected) (r *tableReader, err error) {
	if want == nil {
		if r, err = f.openRoles(c, o, all); err == nil {
			err = r.Lay()
		}
		return r, err
	}
	if r, err = f.open(c, o.ToPredictWith(*want), want); err == nil {
		err = r.LayFeatures(*want, r.table.Line > 0)
	}
	if err == nil && want.Truth {
		err = r.LayTruth(*want)
	}
	if err == nil {
		err = r.CheckTypes()
	}
	return r, err
}

// place formats the position of a column for errors.
func (r *tableReader) place(column int) string {
	if r.Names == nil {
		return strconv.Itoa(column)
	}
	return strconv.Itoa(column) + " (" + value.Quote(r.Names[column]) + ")"
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
	if at := column - r.own; at >= 0 && r.path != nil && r.path[at].Null {
		e.Err = r.path[at].NullError(e.Err)
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

// reading describes how the columns were read.
func (r *tableReader) reading() layout.Reading {
	how := r.Layout.Reading()
	how.BooleanLabels = r.Label >= 0 && r.Cells[r.Label].Kind == tabular.Boolean
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

// nextBlock reads the next block, of at most n rows, and returns io.EOF after the last.
func (r *tableReader) nextBlock(n int) (err error) {
	defer damaged(r.Name, &err)
	r.skip(r.block.Rows)
	err = r.table.Read(max(1, min(n, blockValues/max(1, len(r.Cells), r.Features))), r.wanted[:r.own], &r.block)
	if of, ok := errors.AsType[*tabular.ColumnError](err); ok {
		return r.fail(of.Column, of.Err)
	} else if err != nil {
		return r.fail(-1, err)
	}
	if r.block.Rows > 0 {
		r.repeatPath()
		return nil
	}
	switch {
	case r.read > 0:
		return io.EOF
	case r.table.Line > 0 && r.Names != nil:
		return r.fail(-1, input.EmptyError("no row follows the header"))
	}
	return r.fail(-1, input.EmptyError("no rows"))
}

// next returns as many of the next rows as fit into a message.
func (r *tableReader) next() (*examples.Rows, error) {
	if r.wanted == nil {
		r.wanted = r.Wanted()
	}
	for !r.ended && r.batch.Len() < r.Options.BatchRows && !r.Full(&r.batch) {
		if r.block.Rows == 0 {
			if err := r.nextBlock(max(1, min(r.Options.BatchRows, r.MostRows())-r.batch.Len())); err == io.EOF {
				r.ended = true
				_, err = io.Copy(io.Discard, r.Reader) // for its digest
				if err != nil {
					return nil, r.fail(-1, err)
				}
				break
			} else if err != nil {
				return nil, err
			}
		}
		added, troubles := r.Append(&r.batch, &r.block, func(int) int { return 0 })
		if troubles != nil {
			if err := r.collect(troubles); err != nil {
				return nil, err
			}
			continue
		}
		all := added == r.block.Rows
		if r.skip(added); !all {
			break
		}
	}
	if r.batch.Len() == 0 {
		return nil, io.EOF
	}
	return r.take(), nil
}

// skip removes the first rows of the block.
func (r *tableReader) skip(rows int) {
	r.read, r.block = r.read+int64(rows), r.block.Part(rows, r.block.Rows)
}

// take returns the batch. It counts its rows that lack a column that most earlier rows had.
func (r *tableReader) take() *examples.Rows {
	for at, lacks := range r.batch.Lacks {
		if lacking, gone := r.presences[at].See(lacks); gone {
			r.lost[r.NameOf(at)] += int64(lacking)
		}
	}
	return r.batch.Take()
}

// collect collects the errors of the block, and drops its rows and those before it. It returns the error that ends the reading, if any.
func (r *tableReader) collect(troubles []layout.Trouble) error {
	for troubles != nil { // then those of values of columns with missing ones
		for _, t := range troubles {
			if err := r.Collect(t.Column, r.failAt(t)); err != nil {
				return err
			}
		}
		troubles = r.Fill(&r.block, &examples.Rows{})
	}
	r.batch = layout.Batch{}
	r.skip(r.block.Rows)
	return nil
}

// survey reads the rows that a survey needs.
func (r *tableReader) survey(s layout.Survey) error {
	r.wanted = make([]bool, len(r.Cells))
	for at, c := range r.Cells {
		r.wanted[at] = s.Wants(c)
	}
	for rows := 0; s.More(rows) > 0; rows += r.block.Rows {
		if err := r.nextBlock(s.More(rows)); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for _, t := range r.Examine(&r.block, s) {
			if err := r.Collect(t.Column, r.failAt(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inspect is Inspect of a Reader.
func (r *tableReader) inspect() error { return r.InspectLabels(r.survey) }

// addPath adds the partition columns of the path that the file lacks.
func (r *tableReader) addPath(fields []tabular.Field) []tabular.Field {
	if r.own = len(fields); !r.table.HasNames {
		return fields
	}
	all := slices.Clone(fields)
	for _, v := range r.Path {
		if slices.ContainsFunc(fields, func(f tabular.Field) bool { return f.Name == v.Column }) {
			continue
		}
		f := tabular.Field{Name: v.Column, Kind: tabular.Text, Type: "text in the names of folders"}
		if v.IsWhole {
			f.Kind, f.Type = tabular.Whole, "whole numbers in the names of folders"
		}
		all, r.path = append(all, f), append(r.path, v)
	}
	return all
}

// repeatPath appends the columns of the path to the block.
func (r *tableReader) repeatPath() {
	for _, v := range r.path {
		var c tabular.Same
		switch {
		case v.Null:
		case v.IsWhole:
			c.Value = tabular.Integer(v.Whole)
		default:
			c.Value = tabular.Word(v.Text)
		}
		r.block.Columns = append(r.block.Columns, c)
	}
}
