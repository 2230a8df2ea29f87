package tabular

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Cell is a value with its kind: other rows may have values of other kinds in the same column. The zero value is null.
type Cell struct {
	kind cellKind
	text string // a text, or the digits of a number; a time in a zone
	bits uint64 // of a number, which is a float16 if the kind is cellHalf, or a boolean
	of   Nested // the parts of a value; nil: it has none
}

type cellKind uint8

const (
	cellNull cellKind = iota
	cellText
	cellDigits
	cellFloat
	cellHalf
	cellInstant
	cellWhole
	cellBoolean
	cellList
	cellObject
)

// JSON returns a JSON value validated by CheckJSON; null if there is none.
func JSON(c value.Cell) Cell {
	switch {
	case c.Null():
		return Cell{}
	case c[0] == '"':
		return Word(string(c.Name()))
	case c[0] == '[':
		return ListOf(jsonValue(c))
	case c[0] == '{':
		return ObjectOf(jsonValue(c))
	case c[0] == 't', c[0] == 'f':
		return Truth(c[0] == 't')
	}
	if !slices.ContainsFunc(c, func(b byte) bool { return b == '.' || b == 'e' || b == 'E' }) && string(c) != "-0" {
		if v, err := strconv.ParseInt(string(c), 10, 64); err == nil {
			return Integer(v)
		}
	}
	v, ok := c.Number()
	if ok && math.Abs(v) < maxExact {
		return Float(v)
	}
	whole, fraction, _ := strings.Cut(string(c), ".")
	switch isWhole := strings.Trim(fraction, "0") == "" && !strings.ContainsAny(whole, "eE"); {
	case !ok:
		return Cell{kind: cellDigits, text: string(c)}
	case isWhole: // of any length
		return Cell{kind: cellDigits, text: whole}
	}
	return Float(v)
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

// Half is Float for a float16, which may be a missing-value number that was rounded to float16.
func Half(v float64) Cell {
	c := Float(v)
	if c.kind == cellFloat {
		c.kind = cellHalf
	}
	return c
}

// Instant returns a typed time, in seconds since 1970. Outside a column of times, it is a number of seconds.
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
		return Cell{kind: cellDigits, text: strconv.FormatUint(v, 10)}
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
func Items(list []Cell) Cell { return ListOf(items(list)) }

// Numbers returns a list of numbers, of which NaN is a missing one; with indices, a sparse row. It keeps both.
func Numbers(indices []int64, values []float64) Cell { return ListOf(numbers{indices, values}) }

// ListOf returns a list with these items.
func ListOf(of Nested) Cell { return Cell{kind: cellList, of: of} }

// ObjectOf returns a value with members, which is not a column value itself. nil: they are unknown.
func ObjectOf(of Nested) Cell { return Cell{kind: cellObject, of: of} }

// With returns a value that also has parts.
func (c Cell) With(of Nested) Cell {
	c.of = of
	return c
}

// Nested returns the parts of a value; nil: it has none.
func (c *Cell) Nested() Nested { return c.of }

func (c *Cell) float() float64 { return math.Float64frombits(c.bits) }

func (c *Cell) whole() int64 { return int64(c.bits) }

// Same reports whether two values become the same features, words and labels, regardless of their formats.
func (c *Cell) Same(other *Cell) bool {
	if c.IsList() || other.IsList() {
		return c.IsList() && other.IsList() && slices.EqualFunc(c.List(), other.List(), func(a, b Cell) bool { return a.Same(&b) })
	}
	number, err := c.Number(value.Missing{})
	if another, err2 := other.Number(value.Missing{}); err == nil && err2 == nil {
		return float32(number) == float32(another) || number != number && another != another
	}
	text, _ := c.Text()
	another, _ := other.Text()
	return text == another && c.Null() == other.Null()
}

// Null reports whether a value is null or missing.
func (c *Cell) Null() bool { return c.kind == cellNull }

// IsList reports whether a value is a list.
func (c *Cell) IsList() bool { return c.kind == cellList }

// IsObject reports whether a value has members that can be read.
func (c *Cell) IsObject() bool { return c.kind == cellObject && c.of != nil }

// Each calls put for each item of a list, until an error. Another value has none.
func (c *Cell) Each(put func(item Cell) error) error {
	if c.kind != cellList {
		return nil
	}
	return c.of.Items(put)
}

// List returns the items of a list; nil for another value.
func (c *Cell) List() (list []Cell) {
	if list, ok := c.of.(items); ok {
		return list
	}
	_ = c.Each(func(item Cell) error {
		list = append(list, item)
		return nil
	})
	return list
}

// Len returns the number of items of a list that are in memory without a cell for each; 0 for another value.
func (c *Cell) Len() int {
	if s, ok := c.of.(packed); ok {
		return s.Len()
	}
	return 0
}

// AppendNumbers appends the numbers of a list; NaN for a missing one.
func (c *Cell) AppendNumbers(numbers []float64, missing value.Missing) ([]float64, error) {
	if s, ok := c.of.(packed); ok && !missing.HasNumbers() {
		if all, ok := s.AppendNumbers(numbers); ok {
			return all, nil
		}
	}
	err := c.Each(func(item Cell) error {
		v, err := item.Number(missing)
		numbers = append(numbers, v)
		return err
	})
	return numbers, err
}

// Kind returns the kind of a value, and the length of a list. A null and an empty list have the kind None.
func (c *Cell) Kind() (k Kind, length int) {
	switch c.kind {
	case cellText:
		return Text, 0
	case cellFloat, cellHalf, cellDigits, cellInstant:
		return Numeric, 0
	case cellWhole:
		return Whole, 0
	case cellBoolean:
		return Boolean, 0
	case cellObject:
		if _, err := c.entries(); err == nil {
			return Pairs, 0
		}
		return Unread, 0
	}
	list := c.List()
	row, _ := c.of.(numbers)
	switch {
	case len(list) == 0:
		return None, 0
	case list[0].kind == cellText:
		return TextList, len(list)
	case list[0].kind == cellObject, row.indices != nil:
		return Pairs, 0
	case list[0].kind == cellList:
		return Unread, 0
	}
	return List, len(list)
}

// Word returns a value that is a text.
func (c *Cell) Word() (text string, ok bool) { return c.text, c.kind == cellText }

// String formats a value for an error, truncated if it is long.
func (c *Cell) String() string {
	switch {
	case c.kind == cellList:
		return fmt.Sprintf("an array of %d", len(c.List()))
	case c.kind == cellObject:
		return "an object"
	case c.kind == cellText:
		return value.Quote(c.text)
	case c.kind == cellNull:
		return "null"
	}
	text, _ := c.Text() // of numbers and booleans
	return text
}

// Number returns a number, NaN for a missing one: a number, a boolean as 0 or 1, or a text with either.
func (c *Cell) Number(missing value.Missing) (float64, error) {
	switch c.kind {
	case cellText, cellDigits:
		return missing.Number(c.text)
	case cellHalf:
		if missing.HasHalf(c.float()) {
			return math.NaN(), nil
		}
		return c.float(), nil
	case cellFloat, cellInstant:
		return missing.OrNaN(c.float()), nil
	case cellWhole:
		return missing.OrNaN(float64(c.whole())), nil
	case cellBoolean:
		return float64(c.whole()), nil
	case cellObject:
		return 0, fmt.Errorf("%s: expected a number: name one of its members, as in user.age", c.String())
	case cellList:
		return 0, fmt.Errorf("%s: expected a number: name one of its values by index, as in items.0, or list only this column in "+
			"examples.columns.use", c.String())
	}
	return math.NaN(), nil
}

// Whole returns a number that is an integer and fits into int64.
func (c *Cell) Whole() (int64, error) {
	switch v := c.float(); {
	case c.kind == cellWhole:
		return c.whole(), nil
	case (c.kind == cellFloat || c.kind == cellHalf) && v == math.Trunc(v) && math.Abs(v) <= maxExact:
		return int64(v), nil
	case c.kind == cellText: // of integers
		if v, err := strconv.ParseInt(c.text, 10, 64); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%s is not a whole number that fits int64", c.String())
}

// Text returns a text, or the formatted number or boolean; "" for null.
func (c *Cell) Text() (string, error) {
	switch c.kind {
	case cellText, cellDigits:
		return c.text, nil
	case cellFloat, cellHalf, cellInstant:
		return value.WordOf(c.float()), nil
	case cellWhole:
		return strconv.FormatInt(c.whole(), 10), nil
	case cellBoolean:
		return value.WordOfBoolean(c.whole() != 0), nil
	case cellObject:
		return "", fmt.Errorf("%s: expected a number or a text: name one of its members, as in user.country", c.String())
	case cellList:
		return "", fmt.Errorf("%s: expected a number or a text: name one of its values by index, as in items.0; examples.text counts "+
			"the words of a list", c.String())
	}
	return "", nil
}

// Seconds returns a time with a type, in seconds since 1970.
func (c *Cell) Seconds() (seconds float64, ok bool) { return c.float(), c.kind == cellInstant }

// Time returns a text that [value.Time] parses.
func (c *Cell) Time() (string, error) {
	if c.kind != cellInstant {
		return c.Text()
	}
	if c.text != "" {
		return c.text, nil
	}
	seconds := math.Floor(c.float())
	return time.Unix(int64(seconds), int64((c.float()-seconds)*1e9)).UTC().Format(time.RFC3339Nano), nil
}

// Words returns the text whose words are counted. For a list, it is the texts of the list, separated by spaces.
func (c *Cell) Words() (string, error) {
	if !c.IsList() {
		return c.Text()
	}
	var words strings.Builder // without a list of the texts
	separator := ""
	err := c.Each(func(item Cell) error {
		text, err := item.Text()
		words.WriteString(separator)
		words.WriteString(text)
		separator = " "
		return err
	})
	return words.String(), err
}

// Texts returns the texts of a list, or the words of its numbers; nil for another value.
func (c *Cell) Texts() (texts []string, err error) {
	if !c.IsList() {
		return nil, nil
	}
	texts = []string{}
	err = c.Each(func(item Cell) error {
		text, err := item.Text()
		texts = append(texts, text)
		return err
	})
	return texts, err
}

// entry is an entry of a sparse row.
type entry struct {
	index int64
	value float64
}

// Pairs calls put for each index and value of a sparse row.
func (c *Cell) Pairs(put func(index int64, v float64) error) error {
	if c.Null() {
		return errors.New("null instead of a sparse row")
	}
	if s, ok := c.of.(packed); ok {
		return s.Pairs(put)
	}
	entries, err := c.entries()
	for i := 0; i < len(entries) && err == nil; i++ {
		err = put(entries[i].index, entries[i].value)
	}
	return err
}

// entries returns a sparse row from JSON: a list of objects with index and value, or an object with a value for each index, in any
// order.
func (c *Cell) entries() (entries []entry, err error) {
	add := func(index, number value.Cell) error {
		at, err := strconv.ParseInt(string(index), 10, 64)
		if err != nil {
			return fmt.Errorf("index %s: expected a whole number from 0 to %d", index, examples.MaxColumns-1)
		}
		cell := JSON(number)
		v, err := cell.Number(value.Missing{})
		entries = append(entries, entry{at, v})
		return err
	}
	json, ok := c.of.(jsonValue)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: expected a list of index and value", c.String())
	case c.kind == cellObject:
		err := value.Cell(json).Each(func(index []byte, number value.Cell) error { return add(value.Cell(index), number) })
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.index, b.index) })
		return entries, err
	}
	for item := range value.Cell(json).All() {
		var index, number value.Cell
		err := item.Each(func(name []byte, member value.Cell) error {
			switch string(name) {
			case "index":
				index = member
			case "value":
				number = member
			}
			return nil
		})
		if err != nil || index.Null() || number.Null() {
			return nil, fmt.Errorf("entry %d is %s: expected an index and a value", len(entries), string(item[:min(len(item), 40)]))
		}
		if err := add(index, number); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// maxDigits limits the bytes of a decimal number, because more take too long.
const maxDigits = 1 << 10

// Decimal returns a decimal number from its unscaled value, in big-endian two's complement, and its scale.
func Decimal(digits []byte, scale int) Cell {
	switch {
	case len(digits) == 0:
		return Integer(0)
	case len(digits) > maxDigits || scale > value.MaxScale || scale < -value.MaxScale:
		return ObjectOf(nil)
	}
	unscaled := value.BigEndian(digits)
	if scale == 0 && unscaled.IsInt64() {
		return Integer(unscaled.Int64())
	}
	return Float(value.Decimal(unscaled, scale))
}

// AppendRows appends the encoding of rows of cells, without objects of JSON.
func AppendRows(to []byte, rows [][]Cell) []byte {
	to = binary.AppendUvarint(to, uint64(len(rows)))
	for _, row := range rows {
		to = appendCells(to, row)
	}
	return to
}

func appendCells(to []byte, cells []Cell) []byte {
	to = binary.AppendUvarint(to, uint64(len(cells)))
	for i := range cells {
		c := &cells[i]
		if to = append(to, byte(c.kind)); c.kind == cellList {
			to = appendCells(to, c.List())
			continue
		}
		to = binary.AppendUvarint(to, c.bits)
		to = append(binary.AppendUvarint(to, uint64(len(c.text))), c.text...)
	}
	return to
}

// ReadRows returns the rows that [AppendRows] has encoded.
func ReadRows(from []byte) [][]Cell {
	rows := [][]Cell{}
	for range number(&from) {
		rows = append(rows, readCells(&from))
	}
	return rows
}

func readCells(from *[]byte) []Cell {
	cells := make([]Cell, number(from))
	for i := range cells {
		c := &cells[i]
		c.kind, *from = cellKind((*from)[0]), (*from)[1:]
		if c.kind == cellList {
			*c = Items(readCells(from))
			continue
		}
		c.bits = number(from)
		n := number(from)
		c.text, *from = string((*from)[:n]), (*from)[n:]
	}
	return cells
}

func number(from *[]byte) uint64 {
	v, n := binary.Uvarint(*from)
	*from = (*from)[n:]
	return v
}
