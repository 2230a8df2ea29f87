package tabular

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Cell is a value with its kind: other rows may have values of other kinds in the same column. The zero value is null.
type Cell struct {
	kind  cellKind
	json  value.Cell
	text  string
	bits  uint64  // of a number or a boolean
	items *[]Cell // of a list
}

type cellKind uint8

const (
	cellNull cellKind = iota
	cellJSON
	cellText
	cellFloat
	cellInstant
	cellWhole
	cellBoolean
	cellList
	cellObject
)

// JSON returns a JSON value validated by CheckJSON; null if there is none.
func JSON(c value.Cell) Cell {
	if c.Null() {
		return Cell{}
	}
	return Cell{kind: cellJSON, json: c}
}

// Word returns a text. It is parsed as a number like a CSV field.
func Word(text string) Cell { return Cell{kind: cellText, text: text} }

// Float returns a number; null for NaN.
func Float(v float64) Cell {
	if v != v {
		return Cell{}
	}
	return Cell{kind: cellFloat, bits: math.Float64bits(v)}
}

// Instant returns a time with a type, in seconds since 1970. It is a number of seconds, unless it is in a column of times.
func Instant(seconds float64) Cell {
	return Cell{kind: cellInstant, bits: math.Float64bits(seconds)}
}

// Time is Instant for a time in a time zone.
func Time(t time.Time) Cell {
	seconds, nanoseconds := t.Unix(), int64(t.Nanosecond())
	if seconds < 0 && nanoseconds > 0 { // round towards 0, as a quotient does
		seconds, nanoseconds = seconds+1, nanoseconds-int64(time.Second)
	}
	c := Instant(float64(seconds) + float64(nanoseconds)/float64(time.Second))
	if t.Location() != time.UTC {
		c.text = t.Format(time.RFC3339Nano)
	}
	return c
}

// Integer returns a whole number.
func Integer(v int64) Cell { return Cell{kind: cellWhole, bits: uint64(v)} }

// Unsigned returns an integer that may be too large for int64.
func Unsigned(v uint64) Cell {
	if v > math.MaxInt64 {
		return Word(strconv.FormatUint(v, 10))
	}
	return Integer(int64(v))
}

// Truth returns a boolean.
func Truth(v bool) Cell {
	c := Cell{kind: cellBoolean}
	if v {
		c.bits = 1
	}
	return c
}

// Items returns a list.
func Items(items []Cell) Cell { return Cell{kind: cellList, items: &items} }

// Object returns a value with members, which is not a column value itself.
func Object() Cell { return Cell{kind: cellObject} }

// Source returns the JSON value of a cell; nil if it is null or from another format.
func (c *Cell) Source() value.Cell { return c.json }

func (c *Cell) float() float64 { return math.Float64frombits(c.bits) }

func (c *Cell) whole() int64 { return int64(c.bits) }

// null is a cell at the end of a row that omits it.
var null Cell

// Null reports whether a value is null or missing.
func (c *Cell) Null() bool { return c.kind == cellNull }

// IsList reports whether a value is a list.
func (c *Cell) IsList() bool {
	return c.kind == cellList || c.kind == cellJSON && c.json[0] == '['
}

// List returns the items of a list; nil for another value.
func (c *Cell) List() []Cell {
	if c.kind == cellList {
		return *c.items
	}
	items := c.json.Items()
	if items == nil {
		return nil
	}
	cells := make([]Cell, len(items))
	for i, item := range items {
		cells[i] = JSON(item)
	}
	return cells
}

func (c *Cell) isObject() bool {
	return c.kind == cellObject || c.kind == cellJSON && c.json[0] == '{'
}

// ListKind returns the kind of a column that may have all features, from its first value.
func (c *Cell) ListKind() (k Kind, length int) {
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

// String formats a value for an error, truncated if it is long.
func (c *Cell) String() string {
	switch c.kind {
	case cellJSON:
		return c.json.String()
	case cellList:
		return fmt.Sprintf("an array of %d", len(*c.items))
	case cellObject:
		return "an object"
	case cellText:
		return value.Quote(c.text)
	case cellNull:
		return "null"
	}
	text, _ := c.Text() // of numbers and booleans
	return text
}

// Number returns a number, NaN for a missing one: a number, a boolean as 0 or 1, or a text with either.
func (c *Cell) Number(missing value.Missing) (float64, error) {
	switch c.kind {
	case cellNull:
		return math.NaN(), nil
	case cellFloat, cellInstant:
		return missing.OrNaN(c.float()), nil
	case cellWhole:
		return missing.OrNaN(float64(c.whole())), nil
	case cellBoolean:
		return float64(c.whole()), nil
	case cellText:
		return missing.Number(c.text)
	}
	if c.isObject() {
		return 0, fmt.Errorf("%s: expected a number: name one of its members, as in user.age", c)
	}
	if c.IsList() {
		return 0, fmt.Errorf("%s: expected a number: name one of its values by index, as in items.0, or list only this column in "+
			"examples.columns.use", c)
	}
	return c.json.Number(missing)
}

// Whole returns a number that is an integer and fits into int64.
func (c *Cell) Whole() (int64, error) {
	switch c.kind {
	case cellJSON:
		return c.json.Whole()
	case cellWhole, cellBoolean:
		return c.whole(), nil
	}
	return 0, fmt.Errorf("%s is not a whole number that fits int64", c)
}

// Text returns a text, or the formatted number or boolean; "" for null.
func (c *Cell) Text() (string, error) {
	switch c.kind {
	case cellNull:
		return "", nil
	case cellText:
		return c.text, nil
	case cellFloat, cellInstant:
		return value.WordOf(c.float()), nil
	case cellWhole:
		return strconv.FormatInt(c.whole(), 10), nil
	case cellBoolean:
		return value.WordOfBoolean(c.whole() != 0), nil
	}
	if c.isObject() {
		return "", fmt.Errorf("%s: expected a number or a text: name one of its members, as in user.country", c)
	}
	if c.IsList() {
		return "", fmt.Errorf("%s: expected a number or a text: name one of its values by index, as in items.0; examples.text counts "+
			"the words of a list", c)
	}
	return c.json.Text()
}

// time returns a text that [value.Time] parses.
func (c *Cell) time() (string, error) {
	if c.kind != cellInstant {
		return c.Text()
	}
	if c.text != "" {
		return c.text, nil
	}
	seconds := math.Floor(c.float())
	return time.Unix(int64(seconds), int64((c.float()-seconds)*1e9)).UTC().Format(time.RFC3339Nano), nil
}

// Texts returns the texts of a list; nil for another value.
func (c *Cell) Texts() (texts []string, err error) {
	for _, item := range c.List() {
		text, err := item.Text()
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// Entry is an entry of a sparse row.
type Entry struct {
	Index int64
	Value float64
}

// Entries returns a sparse row from JSON: a list of objects with index and value, or an object with a value for each
// index, in any order.
func (c *Cell) Entries() (entries []Entry, err error) {
	if c.kind != cellJSON {
		return nil, fmt.Errorf("%s: expected a list of index and value", c)
	}
	if c.json[0] == '{' {
		err := c.json.Members(func(index string, number value.Cell) error {
			entry, err := entryOf(value.Cell(index), number)
			entries = append(entries, entry)
			return err
		})
		slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Index, b.Index) })
		return entries, err
	}
	if !c.IsList() {
		return nil, fmt.Errorf("%s: expected a list of index and value", c)
	}
	for i, item := range c.json.Items() {
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

func entryOf(index, number value.Cell) (e Entry, err error) {
	if e.Index, err = strconv.ParseInt(string(index), 10, 64); err != nil {
		return e, fmt.Errorf("index %s: expected a whole number from 0 to %d", index, examples.MaxColumns-1)
	}
	e.Value, err = number.Number(value.Missing{})
	return e, err
}
