package message

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// Meaning describes the values of formats whose columns have names.
const Meaning = "an object with a value for each column, or an array of such objects"

// Rows reads the rows of messages: a value is a row or a list of rows, or these are at the path examples.rows, and share the
// columns of the enclosing value that they lack. It is not safe for concurrent use.
type Rows[V Nested[V]] struct {
	// Names returns the paths that the last value has, for errors.
	Names func() []string

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
func NewRows[V Nested[V]](o Options, names func() []string) *Rows[V] {
	r := &Rows[V]{Names: names, options: o, names: Columns(o.Options), most: MaxRows(o.Options)}
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
	case !ok:
		return r.noRows()
	case rows.Kind() == Null: // for example the state after the deletion of a row
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
	if r.needsLabel() && !r.columns.Has(0) && (len(r.shared) == 0 || r.shared[0].Null()) {
		return r.noLabel()
	}
	return nil
}

// needsLabel reports whether each row must have the label column.
func (r *Rows[V]) needsLabel() bool {
	o := &r.options
	return len(o.Targets)+len(o.LabelColumns) == 0 && o.Mode == layout.Training
}

// Check returns an error if all values lack the label column or the rows, because their schema has no field with that name.
func (r *Rows[V]) Check(has func(name string) bool) error {
	switch rows := r.options.Rows; {
	case rows != "" && !has(Path(rows)[0]):
		return r.noRows()
	case rows == "" && r.needsLabel() && !has(r.names[0]) && !has(Path(r.names[0])[0]):
		return r.noLabel()
	}
	return nil
}

// noRows returns the error of a value without the path of the rows.
func (r *Rows[V]) noRows() error {
	return fmt.Errorf("no rows at %s (examples.rows): the message has %s", value.Quote(r.options.Rows), r.members())
}

// noLabel returns the error of a row without the label column, with the path at which the value has it.
func (r *Rows[V]) noLabel() error {
	advice := ": examples.label names the label column"
	for _, name := range r.Names() {
		if within, ok := strings.CutSuffix(name, "."+r.names[0]); ok {
			if r.options.Rows != "" {
				within = r.options.Rows + "." + within
			}
			advice = fmt.Sprintf(". The column is in %s: set examples.rows to that path", value.Quote(strings.TrimSuffix(within, ".0")))
		}
	}
	return fmt.Errorf("no column %s: the message has %s%s", value.Quote(r.names[0]), r.members(), advice)
}

// members lists the members of the last value.
func (r *Rows[V]) members() string {
	var members []string
	for _, name := range r.Names() {
		if name, _, _ = strings.Cut(name, "."); !slices.Contains(members, name) {
			members = append(members, name)
		}
	}
	if len(members) == 0 {
		return "no members"
	}
	return layout.SomeNames(members)
}
