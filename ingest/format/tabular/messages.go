package tabular

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Messages reads the rows of messages as [Format] reads those of files: both use the same code to assign roles to columns
// and positions to features. A message is read completely or not at all. It is not safe for concurrent use.
type Messages struct {
	tableReader
	rows  Rows
	names []string // nil: columns have no names
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
	m := &Messages{names: names}
	m.defaultLabel = label
	m.begin(o, 0)
	return m
}

// begin resets the layout to n columns without roles.
func (m *Messages) begin(o layout.Options, n int) {
	m.rows = Rows{Columns: make([]Field, n), Missing: value.MissingOf(o.MissingValues), Fail: m.failAt}
	m.table, m.fields = noFile{&m.rows}, m.rows.Columns
	m.Layout = layout.New(o, m.defaultLabel, n, m.fail)
	m.Names, m.ByName, m.Encoded = m.names, m.names != nil, true
	for i := range m.names[:min(n, len(m.names))] {
		m.fields[i].Name = m.names[i]
	}
}

// noFile is a table whose rows do not come from a file.
type noFile struct{ *Rows }

func (noFile) Begin(int) (int, error) { return 0, nil }

// rowError is an error at a row of a message.
type rowError struct {
	row int
	err error
}

func (e *rowError) Error() string { return fmt.Sprintf("row %d, counted from 0: %v", e.row, e.err) }

func (e *rowError) Unwrap() error { return e.err }

// locate adds a column to an error; -1: none. The row number is omitted for a message with one row.
func (r *tableReader) locate(column int, err error) error {
	at, placed := errors.AsType[*rowError](err)
	if placed {
		err = r.Advise(column, at.err)
	}
	switch {
	case column < 0:
	case r.Names == nil:
		err = fmt.Errorf("column %d: %w", column, err)
	default:
		err = fmt.Errorf("column %s: %w", value.Quote(r.Names[min(column, len(r.Names)-1)]), err)
	}
	if placed && r.block.Rows > 1 {
		err = fmt.Errorf("row %d, counted from 0: %w", at.row, err)
	}
	return err
}

// Laid reports whether the columns are known from a row, and have their positions.
func (m *Messages) Laid() bool { return m.laid }

// Assign assigns roles to n columns. The first row determines which columns are lists.
func (m *Messages) Assign(n int, first []Cell) error {
	m.begin(m.Options, n)
	for i := range m.fields {
		f := &m.fields[i]
		if f.Kind = Numeric; i < len(first) && len(m.Options.Columns.Use) == 1 && i == n-1 && m.names != nil {
			f.Kind, f.Length = listKind(&first[i])
		}
		m.Cells[i].List, m.Cells[i].Length = f.Kind == List, f.Length
	}
	if err := m.Layout.Assign(); err != nil {
		return err
	}
	for i, c := range m.Cells {
		f := &m.fields[i]
		switch {
		case c.Role == layout.Label && m.Options.Several():
			f.Kind = Either
		case c.Role == layout.Label, c.Role == layout.Category, c.Role == layout.Hashed:
			f.Kind = Text
		case c.Role == layout.Time:
			f.Kind = Moment
		case c.Role == layout.ServedLabel, c.Role == layout.ServedVersion:
			f.Kind = Text
		case c.Role == layout.Counted:
			f.Kind, f.Joined = Text, true
		}
	}
	if err := m.findSparse(); err != nil {
		return err
	}
	return m.checkTypes()
}

// listKind returns the kind of a column that may have all features, from its first value.
func listKind(c *Cell) (k Kind, length int) {
	switch {
	case c.isObject():
		return Pairs, 0
	case !c.IsList():
		return Numeric, 0
	}
	if items := c.List(); len(items) == 0 || !items[0].isObject() {
		return List, len(items)
	}
	return Pairs, 0
}

// Lay is Assign, and also assigns positions to the features.
func (m *Messages) Lay(n int, first []Cell) error {
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
func (m *Messages) FindUnits(rows [][]Cell) error {
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

// servedBytes is the length of a served prediction without its label: its offset, the version, and two validity bits.
const servedBytes = 13

// Read reads the rows of a message, which are valid until the next call, and returns their length in an examples message.
func (m *Messages) Read(rows [][]Cell) (read *examples.Rows, size int, err error) {
	m.rows.Current, m.block.Rows = rows, len(rows)
	if err := m.readRows(); err != nil {
		return nil, 0, err
	}
	m.block.Columns, m.block.Sparse = m.Table, nil
	if m.IsSparse() {
		m.block.Sparse = &m.Rows
	}
	for row := range rows {
		bytes, err := m.exampleBytes(row, m.labelOf(row))
		if err != nil {
			return nil, 0, m.fail(m.Label, m.failAt(row, err))
		}
		if size += bytes; len(m.block.Served) > 0 {
			size += servedBytes + len(m.block.Served[row].Label)
		}
	}
	m.batch = m.block
	m.batch.Floats = m.block.Floats[:len(rows)*m.block.Cols]
	if m.IsSparse() {
		m.batch.Floats, m.batch.Cols = nil, 0
	}
	if k := len(m.Options.Targets) * len(rows); k > 0 {
		m.batch.Targets = m.block.Targets[:k]
	}
	return &m.batch, size, nil
}

// AddWords adds the words of the categorical columns and texts of valid rows.
func (m *Messages) AddWords(rows [][]Cell, found *layout.FoundWords) error {
	m.rows.Current, m.block.Rows = rows, len(rows)
	return m.findWords(found)
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
		for row := 0; row < len(m.rows.Current) && !m.present[at]; row++ {
			m.present[at] = !m.rows.cell(row, at).Null()
		}
	}
	for at, cell := range m.Cells {
		if _, said := m.Options.Offsets[m.NameOf(at)]; said || cell.Role != layout.Feature || cell.List {
			continue
		}
		_ = m.rows.Numbers(at, func(_ int, v float64) error { // validated before
			found.Add(m.NameOf(at), v)
			return nil
		})
	}
	m.seen += len(m.rows.Current)
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

// place formats the position of a column for errors.
func (r *tableReader) place(column int) string {
	return strconv.Itoa(column) + " (" + value.Quote(r.fields[column].Name) + ")"
}
