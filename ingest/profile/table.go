package profile

import (
	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/schemas/value"
)

// Table is the profile of a table. It is a [format.Viewer].
type Table struct {
	List []*Column // in the order of the file

	missing value.Missing
}

// NewTable returns an empty table. missing are missing-value texts, in addition to the empty cell.
func NewTable(missing []string) *Table { return &Table{missing: value.MissingOf(missing)} }

// Columns sets the columns, from the first file.
func (t *Table) Columns(columns []format.Column) {
	for at := len(t.List); at < len(columns); at++ {
		t.List = append(t.List, newColumn(at, columns[at]))
	}
}

// Cell adds a cell.
func (t *Table) Cell(column int, text string) { t.List[column].add(text, t.missing) }

// Rows returns the number of rows.
func (t *Table) Rows() (n int) {
	for _, c := range t.List {
		n = max(n, c.Rows)
	}
	return n
}
