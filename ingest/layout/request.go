package layout

import (
	"fmt"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Request is the layout of rows to predict that come from no file, and say which of the model's columns they have.
type Request struct {
	*Layout
	*Names
	numeric []bool // by column of the model
}

// NewRequest returns the layout of rows for a model. o is the result of [TrainedAs]. The columns of the model are those of the
// rows, by name or number. If all are numbers, the rows have a single column instead: a list of all. Rows of a sparse model
// without columns have a column of sparse rows. A request of a dense model is safe for concurrent use.
func NewRequest(o Options, want Features) (*Request, error) {
	o = o.ToPredictWith(want)
	asIs := func(_ int, err error) error { return err }
	r := &Request{Names: newNames(nil)}
	laid := func(l Layout) *Request {
		r.Layout = &l
		for _, c := range l.Cells {
			r.numeric = append(r.numeric, c.Role == Feature)
		}
		return r
	}
	if want.Sparse {
		r.Names = newNames(o.needs)
		l := New(o, "", max(1, len(o.needs)), asIs)
		l.Names, l.ByName = o.needs, true
		switch {
		case o.Mixed():
			err := l.LayMixed(want)
			return laid(l), err
		case o.Text != "":
			l.Text, l.Cells[0].Role = 0, Counted
		default:
			l.Sparse, l.Cells[0].Role = 0, Entries
		}
		return laid(l), nil
	}
	columns := want.Columns
	if columns == nil {
		columns = make(examples.Columns, want.Width)
	}
	sources := sourcesOf(columns)
	l := New(o, "", len(sources), asIs)
	names := make([]string, len(sources))
	for i, of := range sources {
		names[i] = of.name
		for _, column := range of.columns {
			l.Cells[i].fill(l.Features, column)
			l.Features += column.Features()
		}
	}
	if r.Names = newNames(names); l.Features != want.Width {
		return nil, fmt.Errorf("the columns have %d features, the model has %d", l.Features, want.Width)
	}
	if laid(l); len(sources) == want.Width && !l.missing.HasNumbers() && r.onlyNumbers() {
		list := Cell{Role: Feature, List: true, Length: want.Width}
		if want.Columns.HasOffsets() {
			for _, c := range want.Columns {
				list.Offsets = append(list.Offsets, c.Offset)
			}
		}
		r.Cells = []Cell{list}
	}
	return r, nil
}

// onlyNumbers reports whether all columns are numbers.
func (r *Request) onlyNumbers() bool {
	for _, numeric := range r.numeric {
		if !numeric {
			return false
		}
	}
	return true
}

// IsList reports whether the rows have all numbers as a list.
func (r *Request) IsList() bool { return len(r.Cells) > 0 && r.Cells[0].List }

// IsNumber reports whether a column of the model is numbers.
func (r *Request) IsNumber(column int) bool { return r.numeric[column] }

// IsText reports whether the words of a column are counted. Its value may be a list of texts.
func (r *Request) IsText(column int) bool { return r.Cells[column].Role == Counted }

// Number returns the number of a feature, NaN for a missing one.
func (r *Request) Number(json value.Cell) (float64, error) {
	cell := tabular.JSON(json)
	v, err := cell.Number(r.missing)
	if err == nil {
		err = r.checkNumber(v)
	}
	return v, r.advise(-1, err)
}
