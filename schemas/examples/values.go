package examples

import (
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/schemas/value"
)

// values are the texts or the whole numbers of a column, of any type that Arrow has for them. At most one of words and numbers is
// set; without both, the column has only nulls.
type values struct {
	isNull  func(row int) bool
	words   func(row int) string // shares the memory of the column
	numbers func(row int) int64
}

// text returns the text of a value that is not null, as of a label.
func (v *values) text(row int) string {
	if v.words != nil {
		return strings.Clone(value.Label(v.words(row)))
	}
	return strconv.FormatInt(v.numbers(row), 10)
}

// valuesOf returns the values of a column, or false if they are neither texts, numbers nor booleans. The last two are
// the words that they are, but for whole numbers that int64 holds.
func valuesOf(column arrow.Array) (v values, ok bool) {
	v.isNull = column.IsNull
	switch column := column.(type) {
	case *array.Null:
		return values{isNull: func(int) bool { return true }}, true
	case *array.String:
		v.words = column.Value
		return v, true
	case *array.LargeString:
		v.words = column.Value
		return v, true
	case *array.Dictionary:
		return encodedValues(column)
	case *array.Boolean:
		v.words = func(row int) string { return value.WordOfBoolean(column.Value(row)) }
		return v, true
	case *array.Uint64:
		v.words = func(row int) string { return strconv.FormatUint(column.Value(row), 10) }
		return v, true
	case *array.Float32:
		return floatValues(column, column.Value), true
	case *array.Float64:
		return floatValues(column, column.Value), true
	}
	v.numbers, ok = wholeNumbers(column)
	return v, ok
}

// floatValues returns the values of a column of numbers as the words that they are. NaN is as null.
func floatValues[T float32 | float64](column arrow.Array, of func(row int) T) values {
	return values{
		isNull: func(row int) bool { v := of(row); return column.IsNull(row) || v != v },
		words:  func(row int) string { return value.WordOf(float64(of(row))) },
	}
}

// encodedValues returns the values of a dictionary-encoded column. The values of its dictionary may be null too.
func encodedValues(column *array.Dictionary) (v values, ok bool) {
	dictionary, ok := valuesOf(column.Dictionary())
	at := column.GetValueIndex
	v.isNull = func(row int) bool { return column.IsNull(row) || dictionary.isNull(at(row)) }
	if words := dictionary.words; words != nil {
		v.words = func(row int) string { return words(at(row)) }
	}
	if numbers := dictionary.numbers; numbers != nil {
		v.numbers = func(row int) int64 { return numbers(at(row)) }
	}
	return v, ok
}

// wholeNumbers returns the values of a column of whole numbers, or false for any other column and for uint64.
func wholeNumbers(column arrow.Array) (func(int) int64, bool) {
	switch c := column.(type) {
	case *array.Int8:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Int16:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Int32:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Int64:
		return c.Value, true
	case *array.Uint8:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Uint16:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Uint32:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	}
	return nil, false
}
