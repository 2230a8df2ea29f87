package message

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// Meaning describes the values of formats whose columns have names.
const Meaning = "an object with a value for each column, or an array of such objects"

// Reader reads the rows of messages: a value is a row or a list of rows, or these are at the path examples.rows, and share the
// columns of the enclosing value that they lack. It is not safe for concurrent use.
type Reader struct {
	options  Options
	decoder  Decoder
	numbered bool // rows may be lists, whose columns have numbers
	columns  *tabular.Paths
	names    []string
	path     tabular.Steps // to the rows; nil: the value itself
	most     int
	last     tabular.Cell // the last value
	rows     [][]tabular.Cell
	shared   []tabular.Cell
}

// NewReader returns a reader of the columns of the options.
func (f Format) NewReader(o Options) (*Reader, error) {
	d, err := f.Open(o)
	if err != nil {
		return nil, err
	}
	r := &Reader{options: o, decoder: d, numbered: f.Width != nil, names: Columns(o.Options), most: maxRows(o.Options)}
	r.columns = tabular.NewPaths(r.names)
	if o.Rows != "" {
		r.path = tabular.StepsTo(o.Rows)
	}
	if d.Has == nil {
		return r, nil
	}
	switch { // of values that can't have the label column or the rows
	case o.Rows != "" && !d.Has(tabular.Path(o.Rows)[0]):
		return nil, r.noRows()
	case o.Rows == "" && r.needsLabel() && !d.Has(r.names[0]) && !d.Has(tabular.Path(r.names[0])[0]):
		return nil, r.noLabel()
	}
	return r, nil
}

// Read returns the rows of a value, with a cell for each of Columns, or for each column if they have no names. They are valid until the
// next call. Except for a *RegistryError and the context's error, an error means that the value is invalid.
func (r *Reader) Read(ctx context.Context, p Payload) ([][]tabular.Cell, error) {
	r.rows = r.rows[:0]
	v, err := r.decoder.Decode(ctx, p)
	if err != nil {
		return nil, err
	}
	r.last = v
	return r.rows, r.add(v)
}

// ReadRow is Read for the value of a message that an archive has decoded.
func (r *Reader) ReadRow(row tabular.Cell) ([][]tabular.Cell, error) {
	if r.decoder.Adapt != nil {
		row = r.decoder.Adapt(row)
	}
	r.last, r.rows = row, r.rows[:0]
	return r.rows, r.add(row)
}

// add adds the rows of a value.
func (r *Reader) add(v tabular.Cell) error {
	r.shared = r.shared[:0]
	if r.path == nil {
		return r.addRows(v)
	}
	rows, ok, err := r.path.Find(v)
	switch {
	case err != nil:
		return err
	case !ok && v.IsList():
		return each(v, r.add)
	case !ok:
		return r.noRows()
	case rows.Null(): // for example the state after the deletion of a row
		return nil
	}
	r.shared = append(r.shared, make([]tabular.Cell, len(r.names))...)
	if v.IsObject() {
		if err := r.columns.Read(v, r.shared); err != nil {
			return err
		}
	}
	return r.addRows(rows)
}

// addRows adds a row, or a list of rows.
func (r *Reader) addRows(v tabular.Cell) error {
	if v.IsList() {
		return each(v, r.addRow)
	}
	return r.addRow(v)
}

// each calls add for the items of a list, and adds their number to errors.
func each(list tabular.Cell, add func(tabular.Cell) error) error {
	i := -1
	return list.Each(func(item tabular.Cell) error {
		i++
		if err := add(item); err != nil {
			return fmt.Errorf("row %d, counted from 0: %w", i, err)
		}
		return nil
	})
}

// addRow adds a row.
func (r *Reader) addRow(v tabular.Cell) error {
	numbered := r.numbered && v.IsList()
	switch {
	case !numbered && !v.IsObject():
		return fmt.Errorf("%s: expected %s", v.String(), Meaning)
	case len(r.rows) >= r.most:
		return fmt.Errorf("more than %d rows, which do not fit a message of examples: send fewer in a value", r.most)
	case numbered:
		r.rows = append(r.rows, v.List())
		return nil
	}
	row := r.next()
	copy(row, r.shared)
	if err := r.columns.Read(v, row); err != nil {
		return err
	}
	if r.needsLabel() && !r.columns.Has(0) && (len(r.shared) == 0 || r.shared[0].Null()) {
		return r.noLabel()
	}
	return nil
}

// next appends a row of nulls, in the memory of an earlier row if possible.
func (r *Reader) next() []tabular.Cell {
	n := len(r.names)
	if at := len(r.rows); at < cap(r.rows) {
		if r.rows = r.rows[:at+1]; len(r.rows[at]) == n {
			clear(r.rows[at])
			return r.rows[at]
		}
		r.rows = r.rows[:at]
	}
	r.rows = append(r.rows, make([]tabular.Cell, n))
	return r.rows[len(r.rows)-1]
}

// needsLabel reports whether each row must have the label column.
func (r *Reader) needsLabel() bool {
	o := &r.options
	return len(o.Targets)+len(o.LabelColumns) == 0 && o.Mode == layout.Training
}

// maxRows returns the maximum number of rows of a message: as many as fit into an examples message. A row may take a few
// bytes of a value, but its cells take more.
func maxRows(o layout.Options) int {
	return layout.MaxBatchBytes / layout.FloatRowBytes(len(o.Columns.Use))
}

// Names returns the paths of the values that the last message and its last row have, read or not; nil: columns have no names.
func (r *Reader) Names() (names []string) {
	of := r.last.Nested()
	switch {
	case of != nil:
		names = of.Names()
	case r.decoder.Names != nil: // there was no message
		names = r.decoder.Names()
	}
	inRow := false
	for i, name := range names {
		if within, ok := strings.CutPrefix(name, r.options.Rows+"."); ok {
			names[i], inRow = strings.TrimPrefix(within, "0."), true
		}
	}
	if inRow {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// noRows returns the error of a value without the path of the rows.
func (r *Reader) noRows() error {
	return fmt.Errorf("no rows at %s (examples.rows): the message has %s", value.Quote(r.options.Rows), r.members())
}

// noLabel returns the error of a row without the label column, with the path at which the value has it.
func (r *Reader) noLabel() error {
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
func (r *Reader) members() string {
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
