package jsonl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// jsonKinds says of which kinds the values of a column are.
type jsonKinds struct {
	seen   int // 1<<kind of each
	length int // of the first list of numbers
	words  int // strings that are no numbers
}

// see adds the kind of a value. Null, and a list without values, have none.
func (k *jsonKinds) see(cell value.Cell, missing value.Missing) {
	if cell == nil {
		return
	}
	switch first := cell[0]; first {
	case '"':
		if k.seen |= 1 << tabular.Text; k.words == 0 {
			if _, err := cell.Number(missing); err != nil {
				k.words++
			}
		}
	case 't', 'f':
		k.seen |= 1 << tabular.Boolean
	case '{':
		k.seen |= 1 << kindOfObject(cell)
	case '[':
		items := cell.Items()
		if len(items) == 0 {
			return
		}
		switch items[0][0] {
		case '"':
			k.seen |= 1 << tabular.TextList
		case '{':
			k.seen |= 1 << tabular.Pairs
		case '[':
			k.seen |= 1 << tabular.Unread
		default:
			k.seen |= 1 << tabular.List
			k.length = cmp.Or(k.length, len(items))
		}
	default:
		if _, err := cell.Whole(); err == nil {
			k.seen |= 1 << tabular.Whole
		} else {
			k.seen |= 1 << tabular.Numeric
		}
	}
}

// kindOfObject returns pairs for an object whose names are indices.
func kindOfObject(cell value.Cell) tabular.Kind {
	if _, err := entriesOf(cell); err != nil {
		return tabular.Unread
	}
	return tabular.Pairs
}

// kind returns the kind of a column with these values: one of texts may have numbers too, and one of lists of texts lists of numbers.
func (k *jsonKinds) kind() tabular.Kind {
	const numbers = 1<<tabular.Whole | 1<<tabular.Numeric | 1<<tabular.Boolean
	switch {
	case k.seen == 1<<tabular.Whole:
		return tabular.Whole
	case k.seen == 1<<tabular.Boolean:
		return tabular.Boolean
	case k.seen&^numbers == 0:
		return tabular.Numeric
	case k.seen&^numbers == 1<<tabular.Text:
		return tabular.Text
	case k.seen == 1<<tabular.List:
		return tabular.List
	case k.seen&^(1<<tabular.List) == 1<<tabular.TextList:
		return tabular.TextList
	case k.seen == 1<<tabular.Pairs:
		return tabular.Pairs
	}
	return tabular.Unread
}

// digits reports whether all strings of the column are numbers.
func (k *jsonKinds) digits() bool { return k.kind() == tabular.Text && k.words == 0 }

// String names the kinds for people.
func (k *jsonKinds) String() string {
	var names []string
	for i, name := range []string{tabular.Unread: "object", tabular.Numeric: "number", tabular.Whole: "whole number",
		tabular.Boolean: "boolean", tabular.Text: "string", tabular.List: "list of numbers", tabular.TextList: "list of strings",
		tabular.Pairs: "list of index and value"} {
		if k.seen&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "null"
	}
	return option.Enumerate(names, "and")
}

func (t *jsonTable) Numbers(column int, put func(i int, v float64) error) error {
	length := t.columns[column].Length
	isList := t.columns[column].Kind == tabular.List
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		if !isList {
			v, err := cell.Number(t.missing)
			if err == nil {
				err = put(i, v)
			}
			if err != nil {
				return t.fail(i, err)
			}
			continue
		}
		items := cell.Items()
		if len(items) != length {
			return t.fail(i, fmt.Errorf("%s: expected a list of %d numbers, as in the first row", cell, length))
		}
		for j, item := range items {
			v, err := item.Number(t.missing)
			if err == nil {
				err = put(i*length+j, v)
			}
			if err != nil {
				return t.fail(i, err)
			}
		}
	}
	return nil
}

func (t *jsonTable) Wholes(column int, put func(row int, v int64, null bool) error) error {
	for i, row := range t.rows[:t.current] {
		cell, v := row.cell(column), int64(0)
		var err error
		if cell != nil {
			v, err = cell.Whole()
		}
		if err == nil {
			err = put(i, v, cell == nil)
		}
		if err != nil {
			return t.fail(i, err)
		}
	}
	return nil
}

func (t *jsonTable) Texts(column int, put func(row int, v string, null bool) error) error {
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		v, err := cell.Text()
		if err == nil {
			err = put(i, v, cell == nil)
		}
		if err != nil {
			return t.fail(i, err)
		}
	}
	return nil
}

// lists implements wordLists.
func (t *jsonTable) Lists(column int, put func(row int, items []string, null bool) error) error {
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		if cell != nil && cell[0] != '[' {
			return t.fail(i, fmt.Errorf("%s: expected a list of labels", cell))
		}
		var words []string
		for _, item := range cell.Items() {
			word, err := item.Text()
			if err != nil {
				return t.fail(i, err)
			}
			words = append(words, word)
		}
		if err := put(i, words, cell == nil); err != nil {
			return t.fail(i, err)
		}
	}
	return nil
}

// sparse implements sparseLists.
func (t *jsonTable) Sparse(column int, put func(row int, indices []int64, values []float64) error) error {
	var indices []int64
	var values []float64
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		if cell == nil {
			return t.fail(i, errors.New("null instead of a sparse row"))
		}
		entries, err := entriesOf(cell)
		indices, values = indices[:0], values[:0]
		for _, e := range entries {
			indices, values = append(indices, e.index), append(values, e.value)
		}
		if err == nil {
			err = put(i, indices, values)
		}
		if err != nil {
			return t.fail(i, err)
		}
	}
	return nil
}

// jsonEntry is a value of a sparse row.
type jsonEntry struct {
	index int64
	value float64
}

// entriesOf returns a sparse row: a list of objects with index and value, or an object with a value for each index,
// whose order says nothing.
func entriesOf(cell value.Cell) (entries []jsonEntry, err error) {
	if cell[0] == '{' {
		err := cell.Members(func(index string, number value.Cell) error {
			entry, err := entryOf(value.Cell(index), number)
			entries = append(entries, entry)
			return err
		})
		slices.SortFunc(entries, func(a, b jsonEntry) int { return cmp.Compare(a.index, b.index) })
		return entries, err
	}
	for i, item := range cell.Items() {
		var index, number value.Cell
		err := item.Members(func(name string, member value.Cell) error {
			switch name {
			case "index":
				index = member
			case "value":
				number = member
			}
			return nil
		})
		if err != nil || index.Null() || number.Null() {
			return nil, fmt.Errorf("entry %d is %s: expected an index and a value", i, string(item[:min(len(item), 40)]))
		}
		entry, err := entryOf(index, number)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func entryOf(index, number value.Cell) (e jsonEntry, err error) {
	if e.index, err = strconv.ParseInt(string(index), 10, 64); err != nil {
		return e, fmt.Errorf("index %s: expected a whole number from 0 to %d", index, examples.MaxColumns-1)
	}
	e.value, err = number.Number(nil)
	return e, err
}
