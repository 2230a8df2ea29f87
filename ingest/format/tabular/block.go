package tabular

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/value"
)

// Source is an open table: a file, or the rows of a request.
type Source interface {
	// Fields describes the columns, in order.
	Fields() []Field
	// Read reads the next rows into a block, which it resets: at most n, and fewer if they are large or at the end. No rows mean
	// the end. Only wanted columns need values. They are valid until the next call. An error has no position, or is an
	// *input.Error or a [*ColumnError]. A Source may panic if the file is damaged.
	Read(n int, wanted []bool, b *Block) error
}

// BlockBytes is the approximate size of the text that a source reads for a block: few enough bytes that the values of the block
// fit a processor's cache.
const BlockBytes = 1 << 17

// ColumnError is an error in a column of a block.
type ColumnError struct {
	Column int
	Err    error
}

// Error implements error.
func (e *ColumnError) Error() string { return fmt.Sprintf("column %d: %v", e.Column, e.Err) }

// Unwrap returns Err.
func (e *ColumnError) Unwrap() error { return e.Err }

// Block has rows of a table. The values of a column are in its Column, or else in Cells.
type Block struct {
	Rows    int
	Columns []Column // one for each field
	Cells   [][]Cell // by row, with a cell for each field; those at the end of a row may be omitted, and are null
	Lines   []int    // line of each row in its file, from 1; nil: rows are not lines
}

// Column has the values of a column in the rows of a block, in one of Numbers, Wholes and Texts: one for each row, or, if Ends
// is set, one for each item of the rows' lists. The zero value has none: its values are cells.
type Column struct {
	Numbers []float64 // NaN is a missing number
	Wholes  []int64   // integers, which are exact
	Truths  bool      // Wholes are booleans, as 0 and 1
	Texts   []string  // texts, or times as [value.Time] parses them
	Nulls   []bool    // rows or items of Wholes and Texts without a value; nil: none
	Ends    []int     // end of the items of each row
	NoLists []bool    // rows that have null instead of a list; nil: none
	Indices []int64   // of sparse rows: the index of each item
}

// Reset removes the rows, and sets the number of columns. It keeps the memory of the columns.
func (b *Block) Reset(columns int) {
	b.Rows, b.Cells, b.Lines = 0, b.Cells[:0], b.Lines[:0]
	b.Columns = slices.Grow(b.Columns[:0], columns)[:columns]
	for i := range b.Columns {
		c := &b.Columns[i]
		*c = Column{Numbers: c.Numbers[:0], Wholes: c.Wholes[:0], Texts: c.Texts[:0], Nulls: c.Nulls[:0], Ends: c.Ends[:0],
			NoLists: c.NoLists[:0], Indices: c.Indices[:0]}
	}
}

// Line returns the line of a value in its file; 0: rows are not lines. The texts before it in the row may have several lines.
func (b *Block) Line(row, column int) int {
	if row >= len(b.Lines) {
		return 0
	}
	line := b.Lines[row]
	for i := range max(column, 0) {
		if texts := b.Columns[i].Texts; row < len(texts) {
			line += strings.Count(texts[row], "\n")
		}
	}
	return line
}

// Cell returns the value of a column whose values are cells.
func (b *Block) Cell(row, column int) *Cell {
	if row < len(b.Cells) && column < len(b.Cells[row]) {
		return &b.Cells[row][column]
	}
	return &null
}

// hasCells reports whether the values of a column are cells.
func (c *Column) hasCells() bool { return len(c.Numbers)+len(c.Wholes)+len(c.Texts)+len(c.Ends) == 0 }

// Null reports whether a row has no value in a column.
func (b *Block) Null(row, column int) bool {
	switch c := &b.Columns[column]; {
	case c.hasCells():
		return b.Cell(row, column).Null()
	case len(c.Ends) > 0:
		return len(c.NoLists) > 0 && c.NoLists[row]
	case len(c.Numbers) > 0:
		return c.Numbers[row] != c.Numbers[row]
	default:
		return c.null(row)
	}
}

func (c *Column) null(i int) bool { return len(c.Nulls) > 0 && c.Nulls[i] }

// Number returns a number; NaN for a missing one. A boolean is 0 or 1.
func (b *Block) Number(row, column int, missing value.Missing) (float64, error) {
	if c := &b.Columns[column]; !c.hasCells() {
		return c.number(row, missing)
	}
	return b.Cell(row, column).Number(missing)
}

func (c *Column) number(i int, missing value.Missing) (float64, error) {
	switch {
	case len(c.Numbers) > 0:
		return missing.OrNaN(c.Numbers[i]), nil
	case c.null(i):
		return math.NaN(), nil
	case len(c.Texts) > 0:
		return missing.Number(c.Texts[i])
	case c.Truths:
		return float64(c.Wholes[i]), nil
	}
	return missing.OrNaN(float64(c.Wholes[i])), nil
}

// Whole returns an integer.
func (b *Block) Whole(row, column int) (v int64, null bool, err error) {
	switch c := &b.Columns[column]; {
	case c.hasCells():
		cell := b.Cell(row, column)
		if cell.Null() {
			return 0, true, nil
		}
		v, err = cell.Whole()
		return v, false, err
	case len(c.Texts) > 0 && !c.null(row): // of unsigned integers
		return 0, false, fmt.Errorf("%s does not fit int64", c.Texts[row])
	case len(c.Wholes) == 0 || c.null(row):
		return 0, true, nil
	default:
		return c.Wholes[row], false, nil
	}
}

// Text returns a text, or the word of a number or of a boolean; "" for null.
func (b *Block) Text(row, column int) (text string, null bool, err error) {
	if c := &b.Columns[column]; !c.hasCells() {
		text, null = c.text(row)
		return text, null, nil
	}
	c := b.Cell(row, column)
	text, err = c.Text()
	return text, c.Null(), err
}

func (c *Column) text(i int) (text string, null bool) {
	switch {
	case len(c.Numbers) > 0:
		v := c.Numbers[i]
		if v != v {
			return "", true
		}
		return value.WordOf(v), false
	case c.null(i):
		return "", true
	case len(c.Texts) > 0:
		return c.Texts[i], false
	case c.Truths:
		return value.WordOfBoolean(c.Wholes[i] != 0), false
	}
	return strconv.FormatInt(c.Wholes[i], 10), false
}

// Time returns a text that [value.Time] parses.
func (b *Block) Time(row, column int) (string, error) {
	if b.Columns[column].hasCells() {
		return b.Cell(row, column).time()
	}
	text, _, err := b.Text(row, column)
	return text, err
}

// Words returns a text whose words are counted: that of a list has its texts, separated by spaces.
func (b *Block) Words(row, column int) (string, error) {
	list, null := b.List(row, column)
	if null {
		return "", nil
	}
	if !list.ok {
		text, _, err := b.Text(row, column)
		return text, err
	}
	texts, err := list.Texts()
	return strings.Join(texts, " "), err
}

// Elements are the items of a list in a row. The zero value is not a list.
type Elements struct {
	ok       bool
	cells    []Cell
	column   *Column
	from, to int
}

// List returns the list of a row; null if there is none. A value that is not a list has the zero value.
func (b *Block) List(row, column int) (l Elements, null bool) {
	switch c := &b.Columns[column]; {
	case c.hasCells():
		cell := b.Cell(row, column)
		if !cell.IsList() {
			return Elements{}, cell.Null()
		}
		return Elements{ok: true, cells: cell.List()}, false
	case len(c.Ends) == 0 || len(c.NoLists) > 0 && c.NoLists[row]:
		return Elements{}, b.Null(row, column)
	default:
		l = Elements{ok: true, column: c, to: c.Ends[row]}
		if row > 0 {
			l.from = c.Ends[row-1]
		}
		return l, false
	}
}

// IsList reports whether the value is a list.
func (l Elements) IsList() bool { return l.ok }

// Len returns the number of items.
func (l Elements) Len() int {
	if l.column != nil {
		return l.to - l.from
	}
	return len(l.cells)
}

// Numbers returns the items if a column stores them as numbers; otherwise nil.
func (l Elements) Numbers() []float64 {
	if l.column == nil || len(l.column.Numbers) == 0 {
		return nil
	}
	return l.column.Numbers[l.from:l.to]
}

// Number returns the number of an item; NaN for a missing one.
func (l Elements) Number(i int, missing value.Missing) (float64, error) {
	if l.column != nil {
		return l.column.number(l.from+i, missing)
	}
	return l.cells[i].Number(missing)
}

// Texts returns the texts of the items, or the words of numbers; "" for a missing one.
func (l Elements) Texts() (texts []string, err error) {
	texts = make([]string, 0, l.Len())
	for i := range l.Len() {
		var text string
		if l.column != nil {
			text, _ = l.column.text(l.from + i)
		} else if text, err = l.cells[i].Text(); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// Pairs calls put for each index and value of a sparse row.
func (b *Block) Pairs(row, column int, put func(index int64, v float64) error) error {
	if b.Null(row, column) {
		return errors.New("null instead of a sparse row")
	}
	if c := &b.Columns[column]; len(c.Ends) > 0 {
		list, _ := b.List(row, column)
		for i := list.from; i < list.to; i++ {
			v, err := c.number(i, value.Missing{})
			if err == nil {
				err = put(c.Indices[i], v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	entries, err := b.Cell(row, column).Entries()
	for i := 0; i < len(entries) && err == nil; i++ {
		err = put(entries[i].Index, entries[i].Value)
	}
	return err
}
