package explain

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Rows are labelled rows of a table.
type Rows struct {
	Features kernel.Dense // raw (n × d); a missing one is NaN
	Classes  []int32      // of the labels, for a model of labels (n)
	Targets  []float64    // for a model of numbers (n × k, row-major)
	Numbers  []int64      // which rows of the table they are, from 0 (n)
	// Unlabelled and Unknown are how many rows were left out, which have no label, or one that the model does not have.
	Unlabelled, Unknown int64
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.Numbers) }

// ClassOf returns what finds the class of a label, as a table has it; -1: the model does not have the label.
func ClassOf(m *model.Model) func(text string) int32 {
	classes := map[string]int32{}
	for c, label := range m.Labels() {
		classes[label] = int32(c)
	}
	return func(text string) int32 {
		for _, label := range []string{value.Label(text), value.NumberLabel(text)} {
			if c, ok := classes[label]; ok {
				return c
			}
		}
		return -1
	}
}

// column is a column of the table that the model was trained on, and its features.
type column struct {
	examples.Column
	from, to int
}

// columnsOf returns the columns of a model. If their names are not known, each feature is a column with its number.
func columnsOf(m *model.Model) (columns []column) {
	table := m.Columns()
	if table == nil {
		for j := range m.Width() {
			table = append(table, examples.Column{Name: strconv.Itoa(j)})
		}
	}
	from := 0
	for _, c := range table {
		columns = append(columns, column{c, from, from + c.Features()})
		from += c.Features()
	}
	return columns
}

// isWords reports whether the column has words.
func (c *column) isWords() bool { return len(c.Categories) > 0 }

// otherWords stands for words that the model does not have.
const otherWords = "other words"

// missing stands for cells without a value.
const missing = "missing"

// word returns the place of the word of a row, len(Categories) for other words, and -1 if it is missing.
func (c *column) word(row []float32) int {
	own := row[c.from:c.to]
	if own[0] != own[0] {
		return -1
	}
	if at := slices.Index(own, 1); at >= 0 {
		return at
	}
	return len(c.Categories)
}

// wordText returns the word of a place.
func (c *column) wordText(place int) string {
	switch {
	case place < 0:
		return missing
	case place == len(c.Categories):
		return otherWords
	}
	return c.Categories[place]
}

// number writes a number of the column as the table has it.
func (c *column) number(v float32) string {
	if v != v {
		return missing
	}
	precision := 32
	if c.Time != "" { // ages count from the offset
		return strconv.FormatFloat(float64(v), 'g', -1, precision)
	}
	if c.Offset != 0 {
		precision = 64
	}
	return strconv.FormatFloat(float64(v)+c.Offset, 'g', -1, precision)
}

// find returns the columns with these names.
func find(columns []column, names []string) (places []int, err error) {
	for _, name := range names {
		at := slices.IndexFunc(columns, func(c column) bool { return c.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("the model has no column %s", value.Quote(name))
		}
		places = append(places, at)
	}
	return places, nil
}
