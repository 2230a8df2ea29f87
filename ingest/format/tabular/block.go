// Package tabular has the rows of tables as their formats read them: cells, columns of values, and blocks of both. It does
// not depend on the roles of columns.
package tabular

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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
	Columns []Column // one for each field
	Cells   [][]Cell // by row, with a cell for each field; those at the end of a row may be omitted, and are null
	Lines   []int    // line of each row in its file, from 1; nil: rows are not lines
	first   int      // the first row, among those that Columns, Cells and Lines have
}

// Column has the values of a column in the rows of a block, in Numbers or in Texts: one for each row, or, if Ends is set, one for
// each item of the rows' lists. The zero value has none: its values are cells.
type Column struct {
	Numbers []float64 // NaN is a missing number
	Truths  bool      // Numbers are booleans, as 0 and 1
	Halves  bool      // Numbers are of type float16
	Texts   []string  // texts, times as [value.Time] parses them, or numbers
	Nulls   []bool    // Texts without a value; nil: none
	Ends    []int     // end of the items of each row
	NoLists []bool    // rows that have null instead of a list; nil: none
	Indices []int64   // of sparse rows: the index of each item
}

// Reset removes the rows, and sets the number of columns. It keeps the memory of the columns.
func (b *Block) Reset(columns int) {
	b.Rows, b.Cells, b.Lines, b.first = 0, b.Cells[:0], b.Lines[:0], 0
	b.Columns = slices.Grow(b.Columns[:0], columns)[:columns]
	for i := range b.Columns {
		c := &b.Columns[i]
		*c = Column{Numbers: c.Numbers[:0], Texts: c.Texts[:0], Nulls: c.Nulls[:0], Ends: c.Ends[:0], NoLists: c.NoLists[:0],
			Indices: c.Indices[:0]}
	}
}

// Part returns the rows [from, to). They share the memory of b.
func (b *Block) Part(from, to int) Block {
	part := *b
	part.Rows, part.first = to-from, b.first+from
	return part
}

// Numbers returns the numbers of a column without lists; nil if it has other values.
func (b *Block) Numbers(column int) []float64 {
	if numbers := b.Columns[column].Numbers; len(numbers) > 0 {
		return numbers[b.first : b.first+b.Rows]
	}
	return nil
}

// Line returns the line of a value in its file; 0: rows are not lines. The texts before it in the row may have several lines.
func (b *Block) Line(row, column int) int {
	if row += b.first; row >= len(b.Lines) {
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

// Cell returns the value of a column in a row.
func (b *Block) Cell(row, column int) Cell {
	row += b.first
	switch c := &b.Columns[column]; {
	case len(c.Numbers)+len(c.Texts)+len(c.Ends) == 0:
		if row < len(b.Cells) && column < len(b.Cells[row]) {
			return b.Cells[row][column]
		}
		return Cell{}
	case len(c.Ends) == 0:
		return c.cell(row)
	case len(c.NoLists) > 0 && c.NoLists[row]:
		return Cell{}
	default:
		list := slice{Column: c, to: c.Ends[row]}
		if row > 0 {
			list.from = c.Ends[row-1]
		}
		return ListOf(list)
	}
}

// cell returns the value of a row or of an item.
func (c *Column) cell(i int) Cell {
	switch {
	case len(c.Numbers) == 0 && len(c.Nulls) > 0 && c.Nulls[i]:
		return Cell{}
	case len(c.Numbers) == 0:
		return Word(c.Texts[i])
	case c.Truths && c.Numbers[i] == c.Numbers[i]:
		return Truth(c.Numbers[i] != 0)
	case c.Halves:
		return Half(c.Numbers[i])
	}
	return Float(c.Numbers[i])
}

// AppendNull appends a missing value. isText reports whether the values are texts.
func (c *Column) AppendNull(isText bool) {
	if isText || len(c.Texts) > 0 {
		c.Texts, c.Nulls = append(c.Texts, ""), append(c.Nulls, true)
	} else {
		c.Numbers = append(c.Numbers, math.NaN())
	}
}

// AppendText appends a text.
func (c *Column) AppendText(text string) {
	c.Texts, c.Nulls = append(c.Texts, text), append(c.Nulls, false)
}

// maxExact is the largest integer up to which float64 represents all integers.
const maxExact = 1 << 53

// AppendWhole appends an integer, or the bits of an unsigned one. If it is too large for a number to be exact, the integers become
// texts.
func (c *Column) AppendWhole(v int64, unsigned bool) {
	if exact := v >= -maxExact && v <= maxExact && !(unsigned && v < 0); exact && len(c.Texts) == 0 {
		c.Numbers = append(c.Numbers, float64(v))
		return
	}
	for i := range c.Numbers {
		number := c.cell(i)
		text, _ := number.Text()
		c.Texts, c.Nulls = append(c.Texts, text), append(c.Nulls, number.Null())
	}
	if c.Numbers = c.Numbers[:0]; unsigned {
		c.AppendText(strconv.FormatUint(uint64(v), 10))
	} else {
		c.AppendText(strconv.FormatInt(v, 10))
	}
}
