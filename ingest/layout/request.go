package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// Request is the layout of rows to predict that come from no file, and say which of the model's columns they have.
type Request struct {
	*Layout
	columns int            // number of columns of the model
	byName  map[string]int // column by name
}

// NewRequest returns the layout of rows for a model. o is the result of [TrainedAs]. The columns of the model are those of the
// rows, by name or number. If all are numbers, the rows have a single column instead: a list of all. Rows of a sparse model
// without columns have a column of sparse rows. A request of a dense model is safe for concurrent use.
func NewRequest(o Options, want Features) (*Request, error) {
	o = o.ToPredictWith(want)
	names := o.Needs
	if want.Columns == nil && !want.Sparse {
		names = make([]string, want.Width)
	}
	r := &Request{columns: len(names), byName: map[string]int{}}
	fields := make([]tabular.Field, max(1, len(names)))
	for i, name := range names {
		if fields[i].Name = name; name != "" {
			r.byName[name] = i
		}
	}
	if want.Sparse && !o.Mixed() && o.Text == "" {
		fields[0].Kind = tabular.Pairs
	}
	l := New(o, "", fields, len(r.byName) > 0, func(_ int, err error) error { return err })
	r.Layout, l.ByName = &l, true
	err := l.LayFeatures(want, false)
	if err == nil && !want.Sparse && l.Features != want.Width {
		err = fmt.Errorf("the columns have %d features, the model has %d", l.Features, want.Width)
	}
	if err != nil {
		return nil, err
	}
	others := slices.ContainsFunc(l.Cells, func(c Cell) bool { return c.Role != Feature })
	if !want.Sparse && len(names) == want.Width && !l.missing.HasNumbers() && !others {
		list := Cell{Role: Feature, Field: tabular.Field{Kind: tabular.List, Length: want.Width}, Offsets: want.offsets()}
		r.Cells = []Cell{list}
	}
	return r, nil
}

// Columns returns the number of columns of the model.
func (r *Request) Columns() int { return r.columns }

// Find returns the number of the column with a name.
func (r *Request) Find(name string) (column int, ok bool) {
	column, ok = r.byName[name]
	return column, ok
}

// IsList reports whether the rows have all numbers as a list.
func (r *Request) IsList() bool { return len(r.Cells) > 0 && r.Cells[0].Kind == tabular.List }

// IsNumber reports whether a column of the model is numbers.
func (r *Request) IsNumber(column int) bool { return r.IsList() || r.Cells[column].Role == Feature }

// Number returns the number of a feature, NaN for a missing one.
func (r *Request) Number(cell tabular.Cell) (float64, error) {
	v, err := cell.Number(r.missing)
	if err == nil {
		err = r.checkNumber(v)
	}
	return v, r.advise(-1, err)
}

// Lacks returns an error with the missing columns of a row. has reports which columns the row has.
func (r *Request) Lacks(has []bool) error {
	var missing []string
	for name, column := range r.byName {
		if !has[column] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("missing columns that the model needs: " + SomeNames(missing))
}
