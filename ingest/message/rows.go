package message

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// Meaning describes the values of formats whose columns have names.
const Meaning = "an object with a value for each column, or an array of such objects"

// Rows reads the rows of messages: a value is a row or a list of rows, or these are at the path examples.rows, and share the
// columns of the enclosing value that they lack. It is not safe for concurrent use.
type Rows[V Nested[V]] struct {
	// NoRows and NoColumn return the error of a value without the path of the rows, and of a row without the label column. nil
	// means that the schema of the values has been checked, by [Options.CheckSchema].
	NoRows, NoColumn func(v V) error

	options Options
	columns *Paths[V]
	names   []string
	path    []*Step // to the rows; nil: the value itself
	most    int
	rows    [][]tabular.Cell
	shared  []tabular.Cell
	add     func(row V) error
}

// NewRows returns a reader of the columns of the options.
func NewRows[V Nested[V]](o Options) *Rows[V] {
	r := &Rows[V]{options: o, names: Columns(o.Options), most: MaxRows(o.Options)}
	r.columns = NewPaths[V](r.names)
	if o.Rows != "" {
		for _, name := range Path(o.Rows) {
			at := &Step{column: -1}
			at.step(name)
			r.path = append(r.path, at)
		}
	}
	r.add = r.row
	return r
}

// Read returns the rows of a value, which are valid until the next call.
func (r *Rows[V]) Read(v V) ([][]tabular.Cell, error) {
	r.Begin()
	err := r.Add(v)
	return r.rows, err
}

// Begin starts with no rows.
func (r *Rows[V]) Begin() { r.rows = r.rows[:0] }

// All returns the rows since Begin.
func (r *Rows[V]) All() [][]tabular.Cell { return r.rows }

// Add adds the rows of a value.
func (r *Rows[V]) Add(v V) error {
	r.shared = r.shared[:0]
	if r.path == nil {
		return r.addAll(v)
	}
	rows, ok, err := find(v, r.path)
	switch {
	case err != nil:
		return err
	case !ok && r.NoRows != nil:
		return r.NoRows(v)
	case !ok, rows.Kind() == Null: // for example the state after the deletion of a row
		return nil
	}
	r.shared = append(r.shared, make([]tabular.Cell, len(r.names))...)
	if v.Kind() == Object {
		if err := Read(r.columns, v, r.shared); err != nil {
			return err
		}
	}
	return r.addAll(rows)
}

// addAll adds a row, or a list of rows.
func (r *Rows[V]) addAll(v V) error {
	if v.Kind() != List {
		return r.add(v)
	}
	i := -1
	err := v.Items(func(row V) error {
		i++
		return r.add(row)
	})
	if err != nil && i >= 0 {
		err = fmt.Errorf("row %d, counted from 0: %w", i, err)
	}
	return err
}

// row adds a row.
func (r *Rows[V]) row(v V) error {
	if v.Kind() != Object {
		cell := v.Cell()
		return fmt.Errorf("%s: expected %s", &cell, Meaning)
	}
	if len(r.rows) >= r.most {
		return TooManyRows(r.most)
	}
	row := NextRow(&r.rows, len(r.names))
	copy(row, r.shared)
	if err := Read(r.columns, v, row); err != nil {
		return err
	}
	o := &r.options
	if r.NoColumn != nil && len(o.Targets)+len(o.LabelColumns) == 0 && Predicted(o.Options) > 0 && !r.columns.Has(0) &&
		(len(r.shared) == 0 || r.shared[0].Null()) {
		return r.NoColumn(v)
	}
	return nil
}

// CheckSchema returns an error if a schema lacks the path of the rows, or a column to predict. has reports whether it has a
// value at a path, in which an item of a list has any index. names are those of its members.
func (o Options) CheckSchema(names []string, has func(path []string) bool) error {
	rows := Path(o.Rows)
	if o.Rows == "" {
		rows = nil
	} else if !has(rows) {
		return NoRowsError(o.Rows, names)
	}
	for at := range Predicted(o.Options) {
		column := Path(Columns(o.Options)[at])
		if !has(slices.Concat(rows, column)) && !has(slices.Concat(rows, []string{"0"}, column)) && !has(column) {
			return NoColumnError(o.Options, at, names)
		}
	}
	return nil
}
