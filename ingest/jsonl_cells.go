package ingest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// jsonKinds says of which kinds the values of a column are.
type jsonKinds struct {
	seen   int // 1<<kind of each
	length int // of the first list of numbers
}

// see adds the kind of a value. Null, and a list without values, have none.
func (k *jsonKinds) see(cell json.RawMessage) {
	if cell == nil {
		return
	}
	switch first := cell[0]; first {
	case '"':
		k.seen |= 1 << text
	case '{':
		k.seen |= 1 << kindOfObject(cell)
	case '[':
		items := itemsOf(cell)
		if len(items) == 0 {
			return
		}
		switch items[0][0] {
		case '"':
			k.seen |= 1 << textList
		case '{':
			k.seen |= 1 << pairs
		case '[':
			k.seen |= 1 << unread
		default:
			k.seen |= 1 << list
			k.length = cmp.Or(k.length, len(items))
		}
	default:
		if _, err := wholeOf(cell); err == nil {
			k.seen |= 1 << whole
		} else {
			k.seen |= 1 << numeric
		}
	}
}

// kindOfObject returns pairs for an object whose names are indices.
func kindOfObject(cell json.RawMessage) kind {
	if _, err := entriesOf(cell); err != nil {
		return unread
	}
	return pairs
}

// kind returns the kind of a column with these values: one of texts may have numbers too, and one of lists of texts lists of numbers.
func (k *jsonKinds) kind() kind {
	const numbers = 1<<whole | 1<<numeric
	switch {
	case k.seen == 1<<whole:
		return whole
	case k.seen&^numbers == 0:
		return numeric
	case k.seen&^numbers == 1<<text:
		return text
	case k.seen == 1<<list:
		return list
	case k.seen&^(1<<list) == 1<<textList:
		return textList
	case k.seen == 1<<pairs:
		return pairs
	}
	return unread
}

// String names the kinds for people.
func (k *jsonKinds) String() string {
	var names []string
	for i, name := range []string{unread: "object", numeric: "number", whole: "whole number", text: "string", list: "list of numbers", textList: "list of strings", pairs: "list of index and value"} {
		if k.seen&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "null"
	}
	return enumerate(names, "and")
}

func (t *jsonTable) numbers(column int, put func(i int, v float64) error) error {
	length := t.columns[column].length
	isList := t.columns[column].kind == list
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		if !isList {
			v, err := floatOf(cell)
			if err == nil {
				err = put(i, v)
			}
			if err != nil {
				return t.fail(i, err)
			}
			continue
		}
		items := itemsOf(cell)
		if len(items) != length {
			return t.fail(i, fmt.Errorf("%s: expected a list of %d numbers, as in the first row", shownCell(cell), length))
		}
		for j, item := range items {
			v, err := floatOf(item)
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

func (t *jsonTable) wholes(column int, put func(row int, v int64, null bool) error) error {
	for i, row := range t.rows[:t.current] {
		cell, v := row.cell(column), int64(0)
		var err error
		if cell != nil {
			v, err = wholeOf(cell)
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

func (t *jsonTable) texts(column int, put func(row int, v string, null bool) error) error {
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		v, err := textOf(cell)
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
func (t *jsonTable) lists(column int, put func(row int, items []string, null bool) error) error {
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		if cell != nil && cell[0] != '[' {
			return t.fail(i, fmt.Errorf("%s: expected a list of labels", shownCell(cell)))
		}
		var words []string
		for _, item := range itemsOf(cell) {
			word, err := textOf(item)
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
func (t *jsonTable) sparse(column int, put func(row int, indices []int64, values []float64) error) error {
	var indices []int64
	var values []float64
	for i, row := range t.rows[:t.current] {
		cell := row.cell(column)
		if cell == nil {
			return t.fail(i, errors.New("a null in the place of a sparse row"))
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

// floatOf returns a number, or NaN for null. Booleans are 0 and 1.
func floatOf(cell json.RawMessage) (float64, error) {
	switch string(cell) {
	case "", "null":
		return math.NaN(), nil
	case "false":
		return 0, nil
	case "true":
		return 1, nil
	}
	v, err := strconv.ParseFloat(string(cell), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // beyond the range it is infinite
		return 0, fmt.Errorf("%s is not a number", shownCell(cell))
	}
	return v, nil
}

// wholeOf returns a whole number. Booleans are 0 and 1.
func wholeOf(cell json.RawMessage) (int64, error) {
	switch string(cell) {
	case "false":
		return 0, nil
	case "true":
		return 1, nil
	}
	v, err := strconv.ParseInt(string(cell), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number that fits int64", shownCell(cell))
	}
	return v, nil
}

// textOf returns a string, or a number as it is written; "" for null. As in tables with types, booleans are 0 and 1.
func textOf(cell json.RawMessage) (v string, err error) {
	switch string(cell) {
	case "", "null":
		return "", nil
	case "false":
		return "0", nil
	case "true":
		return "1", nil
	}
	switch cell[0] {
	case '"':
		return v, json.Unmarshal(cell, &v)
	case '[', '{':
		return "", fmt.Errorf("%s is not a text", shownCell(cell))
	}
	return string(cell), nil
}

// itemsOf returns the items of a list; nil if the value is none.
func itemsOf(cell json.RawMessage) (items []json.RawMessage) {
	if cell == nil || json.Unmarshal(cell, &items) != nil {
		return nil
	}
	return items
}

// jsonEntry is a value of a sparse row.
type jsonEntry struct {
	index int64
	value float64
}

// entriesOf returns a sparse row: a list of objects with index and value, or an object with a value for each index, whose order says nothing.
func entriesOf(cell json.RawMessage) (entries []jsonEntry, err error) {
	if cell[0] == '{' {
		var values map[string]json.RawMessage
		if err := json.Unmarshal(cell, &values); err != nil {
			return nil, notJSON(err)
		}
		for index, value := range values {
			entry, err := entryOf(json.RawMessage(index), value)
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
		slices.SortFunc(entries, func(a, b jsonEntry) int { return cmp.Compare(a.index, b.index) })
		return entries, nil
	}
	for i, item := range itemsOf(cell) {
		var pair struct{ Index, Value *json.RawMessage } // nil if it is null
		if json.Unmarshal(item, &pair) != nil || pair.Index == nil || pair.Value == nil {
			return nil, fmt.Errorf("entry %d is %s: expected an index and a value", i, shownCell(item))
		}
		entry, err := entryOf(*pair.Index, *pair.Value)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func entryOf(index, value json.RawMessage) (e jsonEntry, err error) {
	if e.index, err = strconv.ParseInt(string(index), 10, 64); err != nil {
		return e, fmt.Errorf("index %s: expected a whole number from 0 to %d", shownCell(index), schemas.MaxColumns-1)
	}
	e.value, err = floatOf(value)
	return e, err
}

// shownCell returns a value for an error, cut off if it is long.
func shownCell(cell json.RawMessage) string {
	const maxBytes = 40
	switch {
	case cell == nil:
		return "null"
	case len(cell) > maxBytes:
		return strings.ToValidUTF8(string(cell[:maxBytes]), "") + "…"
	}
	return string(cell)
}
