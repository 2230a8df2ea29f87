package tabular

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// Rows is the part of a table whose rows are cells: JSON Lines, and messages of a topic. Missing cells at the end of a row
// are null.
type Rows struct {
	Columns []Field
	Current [][]Cell      // current rows
	Missing value.Missing // values that mean a missing number
	// Fail returns an error at a current row.
	Fail func(row int, err error) error
}

// Fields describes the columns, in order.
func (t *Rows) Fields() []Field { return t.Columns }

var null Cell

// cell returns the value of a column of a row.
func (t *Rows) cell(row, column int) *Cell {
	if cells := t.Current[row]; column < len(cells) {
		return &cells[column]
	}
	return &null
}

// Numbers calls put for each value of a column of numbers or lists in the current rows: see [Table].
func (t *Rows) Numbers(column int, put func(i int, v float64) error) error {
	length := t.Columns[column].Length
	isList := t.Columns[column].Kind == List
	for row := range t.Current {
		cell := t.cell(row, column)
		if !isList {
			if err := t.number(cell, row, put); err != nil {
				return t.Fail(row, err)
			}
			continue
		}
		items := cell.List()
		if len(items) != length {
			return t.Fail(row, fmt.Errorf("%s: expected a list of %d numbers, as in the first row", cell, length))
		}
		for j := range items {
			if err := t.number(&items[j], row*length+j, put); err != nil {
				return t.Fail(row, err)
			}
		}
	}
	return nil
}

// number calls put with the number of a cell.
func (t *Rows) number(cell *Cell, i int, put func(i int, v float64) error) error {
	v, err := t.numberOf(cell)
	if err != nil {
		return err
	}
	return put(i, v)
}

// numberOf returns the number of a cell.
func (t *Rows) numberOf(cell *Cell) (float64, error) {
	v, err := cell.Number(t.Missing)
	if word, ok := err.(value.NumberError); ok && layout.DecimalComma.MatchString(string(word)) {
		err = fmt.Errorf("%w: write decimals with a point", err)
	}
	return v, err
}

// Wholes calls put for each value of an integer column in the current rows.
func (t *Rows) Wholes(column int, put func(row int, v int64, null bool) error) error {
	for row := range t.Current {
		cell, v := t.cell(row, column), int64(0)
		var err error
		if !cell.Null() {
			v, err = cell.Whole()
		}
		if err == nil {
			err = put(row, v, cell.Null())
		}
		if err != nil {
			return t.Fail(row, err)
		}
	}
	return nil
}

// Texts calls put for each value of a text column in the current rows: see [Table].
func (t *Rows) Texts(column int, put func(row int, v string, null bool) error) error {
	for row := range t.Current {
		cell := t.cell(row, column)
		text, err := t.text(cell, &t.Columns[column])
		if err == nil {
			err = put(row, text, cell.Null())
		}
		if err != nil {
			return t.Fail(row, err)
		}
	}
	return nil
}

// text returns the text of a cell of a column.
func (t *Rows) text(cell *Cell, of *Field) (string, error) {
	switch {
	case of.Kind == Moment:
		return cell.time()
	case !of.Joined || !cell.IsList():
		return cell.Text()
	}
	words, err := cell.Texts()
	return strings.Join(words, " "), err
}

// Lists calls put for each list of a column in the current rows, with its texts, or its formatted numbers and booleans.
func (t *Rows) Lists(column int, put func(row int, items []string, null bool) error) error {
	for row := range t.Current {
		cell := t.cell(row, column)
		if !cell.Null() && !cell.IsList() {
			return t.Fail(row, fmt.Errorf("%s: expected a list of labels", cell))
		}
		words, err := cell.Texts()
		if err == nil {
			err = put(row, words, cell.Null())
		}
		if err != nil {
			return t.Fail(row, err)
		}
	}
	return nil
}

// Sparse calls put for each sparse row of a column in the current rows.
func (t *Rows) Sparse(column int, put func(row int, indices []int64, values []float64) error) error {
	var indices []int64
	var values []float64
	for row := range t.Current {
		cell := t.cell(row, column)
		if cell.Null() {
			return t.Fail(row, errNoSparseRow)
		}
		entries, err := cell.Entries()
		indices, values = indices[:0], values[:0]
		for _, e := range entries {
			indices, values = append(indices, e.Index), append(values, e.Value)
		}
		if err == nil {
			err = put(row, indices, values)
		}
		if err != nil {
			return t.Fail(row, err)
		}
	}
	return nil
}
