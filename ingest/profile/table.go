// Package profile suggests roles for the columns of a table:
//
//	columns, cells ──Table──▶ column profiles ──Roles──▶ label, numbers, categories, and columns to drop, with reasons
//
// Memory does not depend on the length of the table: a column keeps the words for a categorical column, and a sample of
// the hashes of its cells.
package profile

import (
	"hash/maphash"

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

// sampled is the maximum number of hashes of a column.
const sampled = 1 << 14

// distinct counts different texts. It keeps all hashes, with their frequencies, up to a limit; then only those that end
// with ever more zeros (adaptive sampling: Wegman, in Flajolet 1990). So counts up to sampled are exact, and others are
// within some percent.
type distinct struct {
	seed   maphash.Seed
	kept   map[uint64]int32
	zeros  uint
	repeat bool // a kept text occurred twice
}

func newDistinct() *distinct { return &distinct{seed: maphash.MakeSeed(), kept: map[uint64]int32{}} }

func (d *distinct) add(text string) {
	hash := maphash.String(d.seed, text)
	if hash&(1<<d.zeros-1) != 0 {
		return
	}
	if d.kept[hash]++; d.kept[hash] > 1 {
		d.repeat = true
	}
	for len(d.kept) > sampled {
		d.zeros++
		for hash := range d.kept {
			if hash&(1<<d.zeros-1) != 0 {
				delete(d.kept, hash)
			}
		}
	}
}

// count returns the approximate number of different texts.
func (d *distinct) count() int { return len(d.kept) << d.zeros }
