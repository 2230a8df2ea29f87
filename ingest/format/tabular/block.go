// Package tabular has the rows of tables as their formats read them: cells, columns of values, and blocks of both. It does
// not depend on the roles of columns.
package tabular

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a column's values.
type Kind uint8

const (
	Unread   Kind = iota // unsupported
	Numeric              // floating-point numbers
	Whole                // whole numbers
	Boolean              // as numbers 0 and 1
	Text                 // words, or whole texts
	List                 // of numbers, with a fixed length
	TextList             // lists of texts
	None                 // of a null or an empty list
	Pairs                // lists of index and value: sparse rows
	Moment               // dates or times, formatted as [value.Time] parses them
	Any                  // of another kind in each row
)

// IsNumber reports whether values are numbers, or booleans, which count as 0 and 1.
func IsNumber(k Kind) bool { return k == Whole || k == Numeric || k == Boolean }

// Field is a column of a table, as its file describes it.
type Field struct {
	Name   string
	Kind   Kind
	Type   string // type name of the file format
	Digits bool   // a text column whose texts may all be numbers
	Length int    // of a list
	Advice string // how to make an unsupported column readable; "": convert it to numbers
}

// AdviseTimes is the advice for a column of dates or times that is not a feature.
const AdviseTimes = "list it under examples.times"

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
	Columns []Column // one for each field; nil: its values are cells
	Cells   [][]Cell // by row, with a cell for each field; those at the end of a row may be omitted, and are null
	Lines   []int    // line of each row in its file, from 1; nil: rows are not lines
	first   int      // the first row, among those that Columns, Cells and Lines have
}

// Column has the values of a column in the rows of a block, in the form in which its format has them.
type Column interface {
	// Cell returns the value of a row.
	Cell(row int) Cell
}

// Same is the value of all rows.
type Same struct{ Value Cell }

// Cell implements Column.
func (s Same) Cell(int) Cell { return s.Value }

// Reset removes the rows, and sets the number of columns.
func (b *Block) Reset(columns int) {
	*b = Block{Columns: slices.Grow(b.Columns[:0], columns)[:columns], Cells: b.Cells[:0], Lines: b.Lines[:0]}
	clear(b.Columns)
}

// Add adds a row of n cells that are null, if possible in the memory of an earlier row.
func (b *Block) Add(n int) []Cell {
	if b.Rows++; len(b.Cells) == cap(b.Cells) {
		b.Cells = append(b.Cells, nil)
	} else {
		b.Cells = b.Cells[:len(b.Cells)+1]
	}
	row := &b.Cells[len(b.Cells)-1]
	*row = slices.Grow((*row)[:0], n)[:n]
	clear(*row)
	return *row
}

// Part returns the rows [from, to). They share the memory of b.
func (b *Block) Part(from, to int) Block {
	part := *b
	part.Rows, part.first = to-from, b.first+from
	return part
}

// AppendNumbers appends the numbers of a column, NaN for a missing one. ok is false if it has other values.
func (b *Block) AppendNumbers(to []float64, column int) (_ []float64, ok bool) {
	if of, is := b.Columns[column].(interface {
		AppendNumbers(to []float64, from, end int) ([]float64, bool)
	}); is {
		return of.AppendNumbers(to, b.first, b.first+b.Rows)
	}
	return to, false
}

// Line returns the line of a value in its file; 0: rows are not lines. The texts before it in the row may have several lines.
func (b *Block) Line(row, column int) int {
	if row += b.first; row >= len(b.Lines) {
		return 0
	}
	line := b.Lines[row]
	for i := range max(column, 0) {
		if row < len(b.Cells) && i < len(b.Cells[row]) {
			line += strings.Count(b.Cells[row][i].text, "\n")
		}
	}
	return line
}

// Cell returns the value of a column in a row.
func (b *Block) Cell(row, column int) Cell {
	row += b.first
	switch c := b.Columns[column]; {
	case c != nil:
		return c.Cell(row)
	case row < len(b.Cells) && column < len(b.Cells[row]):
		return b.Cells[row][column]
	}
	return Cell{}
}

// maxExact is the largest integer up to which float64 represents all integers.
const maxExact = 1 << 53
