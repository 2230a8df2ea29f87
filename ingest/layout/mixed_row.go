package layout

import (
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
)

// MixedRow reads single mixed rows to predict, value by value. It is not safe for concurrent use. Create it with
// NewMixedRow.
type MixedRow struct {
	*Names
	layout Layout
	has    []bool
	cells  []tabular.Cell
}

// NewMixedRow returns a reader of rows for a model. o is the result of [TrainedAs].
func NewMixedRow(o Options, want Features) (*MixedRow, error) {
	o = o.ToPredictWith(want)
	names := o.Needs()
	m := &MixedRow{Names: NewNames(names), layout: New(o, "", len(names), func(_ int, err error) error { return err }),
		has: make([]bool, len(names)), cells: make([]tabular.Cell, len(names))}
	m.layout.Names, m.layout.ByName = names, true
	return m, m.layout.LayMixed(want)
}

// Begin starts a row.
func (m *MixedRow) Begin() {
	clear(m.has)
	clear(m.cells)
}

// IsText reports whether the words of a column are counted. Its value may be a list of texts.
func (m *MixedRow) IsText(column int) bool { return m.layout.Cells[column].Role == Counted }

// Put sets the value of a column; "" is a missing one.
func (m *MixedRow) Put(column int, text string) error {
	m.has[column] = true
	if m.cells[column] = tabular.Word(text); text == "" && m.layout.Cells[column].Role != Counted {
		m.cells[column] = tabular.Cell{}
	}
	return nil
}

// End appends the row. Columns without a value are missing.
func (m *MixedRow) End(rows *examples.SparseRows) error {
	if m.layout.Options.Missing.Mode != MissingMean {
		if err := m.Lacks(m.has); err != nil {
			return err
		}
	}
	var b tabular.Block
	b.Reset(len(m.cells))
	b.Rows, b.Cells = 1, [][]tabular.Cell{m.cells}
	if troubles := m.layout.Fill(&b, &examples.Rows{Sparse: rows}); troubles != nil {
		return troubles[0].Err
	}
	return nil
}
