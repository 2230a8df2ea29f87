package schemas

import (
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// values are the texts or the whole numbers of a column, of any type that Arrow has for them. At most one of words and numbers is
// set; without both, the column has only nulls.
type values struct {
	isNull  func(row int) bool
	words   func(row int) string // shares the memory of the column
	numbers func(row int) int64
}

// valuesOf returns the values of a column, or false if they are neither texts nor whole numbers that int64 holds.
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
	}
	v.numbers, ok = wholeNumbers(column)
	return v, ok
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
