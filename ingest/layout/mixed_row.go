package layout

import (
	"math"

	"github.com/stagewise/stagewise/schemas/examples"
)

// MixedRow reads single mixed rows to predict, value by value. It is not safe for concurrent use. Create it with
// NewMixedRow.
type MixedRow struct {
	*Names
	layout Layout
	has    []bool
}

// NewMixedRow returns a reader of rows for a model. o is the result of [TrainedAs].
func NewMixedRow(o Options, want Features) (*MixedRow, error) {
	o = o.ToPredictWith(want)
	names := o.Needs()
	m := &MixedRow{Names: NewNames(names), layout: New(o, "", len(names), func(_ int, err error) error { return err }),
		has: make([]bool, len(names))}
	m.layout.Names, m.layout.ByName = names, true
	return m, m.layout.LayMixed(want)
}

// Begin starts a row.
func (m *MixedRow) Begin() {
	clear(m.has)
	clear(m.layout.mixed.numbers)
	clear(m.layout.mixed.words)
	_ = m.layout.Words.Count("") // an empty text is valid
}

// IsText reports whether the words of a column are counted. Its value may be a list of texts.
func (m *MixedRow) IsText(column int) bool { return m.layout.Cells[column].Role == Counted }

// Put sets the value of a column; "" is a missing one.
func (m *MixedRow) Put(column int, text string) error {
	l, c := &m.layout, m.layout.Cells[column]
	m.has[column] = true
	switch c.Role {
	case Hashed:
		return l.HashWord(c, l.mixed.words, text)
	case Counted:
		return l.Words.Count(text)
	case Time:
		return l.PutTime(c, l.mixed.numbers, text)
	}
	v, err := l.Parse(text)
	if err != nil {
		return err
	}
	l.mixed.numbers[c.At] = c.less(v, text)
	return nil
}

// End appends the row. Columns without a value are missing.
func (m *MixedRow) End(rows *examples.SparseRows) error {
	if m.layout.Options.Missing.Mode != MissingMean {
		if err := m.Lacks(m.has); err != nil {
			return err
		}
	}
	for at, has := range m.has {
		if c := m.layout.Cells[at]; !has && c.Role == Feature {
			m.layout.mixed.numbers[c.At] = float32(math.NaN())
		} else if !has && c.Role == Time {
			for _, p := range c.parts {
				m.layout.mixed.numbers[p.at] = float32(math.NaN())
			}
		}
	}
	x := m.layout.mixed
	x.texts.Reset()
	m.layout.Words.AppendTo(&x.texts)
	columns, counts := x.texts.Row(0)
	m.layout.AppendMixed(rows, x.numbers, columns, counts, x.words)
	return nil
}
