package format

import (
	"fmt"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Messages reads the rows of messages as [Tables] reads those of files: both use the same code to assign roles to columns
// and positions to features. A message is read completely or not at all. It is not safe for concurrent use.
type Messages struct {
	columns
	block tabular.Block // rows of the last message
	rows  examples.Rows // the same as examples
	label layout.Column // default column
	names []string      // nil: columns have no names
	laid  bool
	seen  int // number of rows passed to AddSpreads, of the first layout.OffsetRows

	present []bool // by column: whether one of these rows has a value
}

// Absent returns the names of the features without a value in any of the first rows, if there were at least that many rows.
func (m *Messages) Absent(least int) (names []string) {
	for at, present := range m.present {
		role := m.Cells[at].Role
		if m.seen >= least && !present && (role.IsFeature() || role == layout.ServedLabel || role == layout.ServedVersion) {
			names = append(names, m.NameOf(at))
		}
	}
	return names
}

// NewMessages returns a reader of rows with these columns; without names, columns have numbers, and the first row
// determines how many.
func NewMessages(o layout.Options, label layout.Column, names []string) *Messages {
	m := &Messages{names: names, label: label}
	m.begin(o, 0)
	return m
}

// begin resets the layout to n columns without roles.
func (m *Messages) begin(o layout.Options, n int) {
	m.fields = make([]tabular.Field, n)
	m.Layout = layout.New(o, m.label, n, m.locate)
	m.Names, m.ByName, m.Encoded = m.names, m.names != nil, true
	for i := range m.names[:min(n, len(m.names))] {
		m.fields[i].Name = m.names[i]
	}
}

// locate adds a column to an error; -1: none.
func (m *Messages) locate(column int, err error) error {
	switch {
	case column < 0:
		return err
	case m.Names == nil:
		return fmt.Errorf("column %d: %w", column, err)
	}
	return fmt.Errorf("column %s: %w", value.Quote(m.Names[min(column, len(m.Names)-1)]), err)
}

// failAt returns an error at a value. The row number is omitted for a message with one row.
func (m *Messages) failAt(t layout.Trouble) error {
	err := m.locate(t.Column, t.Err)
	if m.block.Rows > 1 {
		return fmt.Errorf("row %d, counted from 0: %w", t.Row, err)
	}
	return err
}

// Laid reports whether the columns are known from a row, and have their positions.
func (m *Messages) Laid() bool { return m.laid }

// Assign assigns roles to n columns. The first row determines which columns are lists.
func (m *Messages) Assign(n int, first []tabular.Cell) error {
	m.begin(m.Options, n)
	for i := range m.fields {
		f := &m.fields[i] // of any values
		f.Kind, f.Digits = tabular.Text, true
		if i < len(first) && len(m.Options.Columns.Use) == 1 && i == n-1 && m.names != nil {
			switch kind, length := first[i].Kind(); kind {
			case tabular.List, tabular.TextList:
				f.Kind, f.Length = tabular.List, length
			case tabular.Pairs:
				f.Kind = tabular.Pairs
			}
		}
		m.Cells[i].List, m.Cells[i].Length = f.Kind == tabular.List, f.Length
	}
	if err := m.Layout.Assign(); err != nil {
		return err
	}
	if err := m.findSparse(); err != nil {
		return err
	}
	return m.checkTypes()
}

// Lay is Assign, and also assigns positions to the features.
func (m *Messages) Lay(n int, first []tabular.Cell) error {
	if err := m.Assign(n, first); err != nil {
		return err
	}
	if err := m.Layout.Lay(); err != nil {
		return err
	}
	m.laid = true
	return nil
}

// FindUnits determines the units of times that are not known yet, from the rows of a message. The rows before had no numbers
// there, so their columns are the same.
func (m *Messages) FindUnits(rows [][]tabular.Cell) error {
	found := layout.NewFoundWords(m.Options)
	if err := m.AddWords(rows, found); err != nil {
		return err
	}
	before := m.Options
	m.Layout.Options = before.WithUnits(found)
	if err := m.CheckUnits(); err != nil {
		m.Layout.Options = before
		return err
	}
	return m.Lay(len(m.Cells), rows[0])
}

// Forget makes the next row determine the columns again.
func (m *Messages) Forget() {
	m.begin(m.Options, 0)
	m.laid, m.present, m.seen = false, nil, 0
}

// take makes the rows of a message the rows of the block.
func (m *Messages) take(rows [][]tabular.Cell) {
	m.block.Reset(len(m.Cells))
	m.block.Rows, m.block.Cells = len(rows), rows
}

// servedBytes is the length of a served prediction without its label: its offset, the version, and two validity bits.
const servedBytes = 13

// Read reads the rows of a message, which are valid until the next call, and returns their length in an examples message.
func (m *Messages) Read(rows [][]tabular.Cell) (read *examples.Rows, size int, err error) {
	m.take(rows)
	m.rows.Reset()
	if troubles := m.Fill(&m.block, &m.rows); troubles != nil {
		return nil, 0, m.failAt(troubles[0])
	}
	for row := range rows {
		bytes, err := m.sizeOf(&m.rows, row)
		if err != nil {
			return nil, 0, m.failAt(layout.Trouble{Row: row, Column: max(m.Label, m.Text), Err: err})
		}
		if size += bytes; len(m.rows.Served) > 0 {
			size += servedBytes + len(m.rows.Served[row].Label)
		}
	}
	return &m.rows, size, nil
}

// WithoutValue appends which of the last rows that were read have no value in a column.
func (m *Messages) WithoutValue(lacks []bool, column int) []bool {
	return m.Layout.WithoutValue(lacks, &m.block, &m.rows, column)
}

// AddWords adds the words of the categorical columns and texts of valid rows.
func (m *Messages) AddWords(rows [][]tabular.Cell, found *layout.FoundWords) error {
	m.take(rows)
	if troubles := m.Layout.AddWords(&m.block, found); troubles != nil {
		return m.failAt(troubles[0])
	}
	return nil
}

// AddSpreads adds the numbers of the last rows, if they are among the first ones, and records which columns have values.
func (m *Messages) AddSpreads(found layout.Spreads) {
	if m.seen >= layout.OffsetRows {
		return
	}
	if m.present == nil {
		m.present = make([]bool, len(m.Cells))
	}
	for at := range m.Cells {
		for row := 0; row < m.block.Rows && !m.present[at]; row++ {
			cell := m.block.Cell(row, at)
			m.present[at] = !cell.Null()
		}
	}
	m.Layout.AddSpreads(&m.block, found)
	m.seen += m.block.Rows
}

// Others returns the number of columns that are not features: the label and the weight, and unused columns of a CSV.
func (m *Messages) Others() (n int) {
	for _, c := range m.Cells {
		if !c.Role.IsFeature() {
			n++
		}
	}
	return n
}
