package stream

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/schemas/value"
)

// Type is the type of the values of a column.
type Type uint8

const (
	Other   Type = iota // not read
	Null                // no value at all
	Boolean             // Whole is 0 or 1
	Whole               // integers
	Number              // floating-point numbers, decimals, and durations and times of day in seconds
	Text                // UTF-8
	Moment              // dates and times
	List                // lists, and maps as lists of structs of key and value
	Struct              // with members
)

// TypeOf returns the type of the values of an Arrow type.
func TypeOf(t arrow.DataType) Type {
	switch t := t.(type) {
	case *arrow.NullType:
		return Null
	case *arrow.BooleanType:
		return Boolean
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type, *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type,
		*arrow.Uint64Type:
		return Whole
	case *arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type, *arrow.DurationType, *arrow.Time32Type, *arrow.Time64Type:
		return Number
	case arrow.DecimalType:
		if scale := t.GetScale(); scale <= value.MaxScale && scale >= -value.MaxScale {
			return Number
		}
	case *arrow.StringType, *arrow.LargeStringType:
		return Text
	case *arrow.TimestampType, *arrow.Date32Type, *arrow.Date64Type:
		return Moment
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType, *arrow.MapType:
		return List
	case *arrow.StructType:
		return Struct
	case *arrow.DictionaryType:
		if of := TypeOf(t.ValueType); of != List && of != Struct {
			return of
		}
	}
	return Other
}

// Values are the values of a column. The methods for a type must not be called for another one, or for a null.
type Values struct {
	Type   Type
	Column arrow.Array

	null   func(i int) bool
	whole  func(i int) int64
	number func(i int) float64
	text   func(i int) string
	moment func(i int) time.Time
	date   bool // moments are days

	unsigned bool // whole returns the bits of a uint64
	half     bool // numbers are of type float16
	lists    array.ListLike
	items    *Values
	members  []*Values // of structs; nil: not read yet
}

// ValuesOf returns the values of a column.
func ValuesOf(column arrow.Array) *Values {
	v := &Values{Type: TypeOf(column.DataType()), Column: column, null: column.IsNull}
	switch c := column.(type) {
	case *array.Boolean:
		v.whole = func(i int) int64 {
			if c.Value(i) {
				return 1
			}
			return 0
		}
	case *array.Int8:
		v.whole = widen(c.Value)
	case *array.Int16:
		v.whole = widen(c.Value)
	case *array.Int32:
		v.whole = widen(c.Value)
	case *array.Int64:
		v.whole = c.Value
	case *array.Uint8:
		v.whole = widen(c.Value)
	case *array.Uint16:
		v.whole = widen(c.Value)
	case *array.Uint32:
		v.whole = widen(c.Value)
	case *array.Uint64:
		v.whole, v.unsigned = widen(c.Value), true
	case *array.Float16:
		v.number, v.half = func(i int) float64 { return float64(c.Value(i).Float32()) }, true
	case *array.Float32:
		v.number = func(i int) float64 { return float64(c.Value(i)) }
	case *array.Float64:
		v.number = c.Value
	case *array.Decimal128:
		scale := int(c.DataType().(*arrow.Decimal128Type).Scale)
		v.number = func(i int) float64 { return value.Decimal(c.Value(i).BigInt(), scale) }
	case *array.Decimal256:
		scale := int(c.DataType().(*arrow.Decimal256Type).Scale)
		v.number = func(i int) float64 { return value.Decimal(c.Value(i).BigInt(), scale) }
	case *array.Duration:
		v.number = seconds(c.Value, c.DataType().(*arrow.DurationType).Unit)
	case *array.Time32:
		v.number = seconds(c.Value, c.DataType().(*arrow.Time32Type).Unit)
	case *array.Time64:
		v.number = seconds(c.Value, c.DataType().(*arrow.Time64Type).Unit)
	case *array.String:
		v.text = c.Value
	case *array.LargeString:
		v.text = c.Value
	case *array.Timestamp:
		t := c.DataType().(*arrow.TimestampType)
		inZone, err := t.GetToTimeFunc()
		if err != nil { // an unknown time zone
			inZone = func(at arrow.Timestamp) time.Time { return at.ToTime(t.Unit) }
		}
		v.moment = func(i int) time.Time { return inZone(c.Value(i)) }
	case *array.Date32:
		v.moment, v.date = func(i int) time.Time { return c.Value(i).ToTime() }, true
	case *array.Date64:
		v.moment, v.date = func(i int) time.Time { return c.Value(i).ToTime() }, true
	case *array.Dictionary:
		if v.Type != Other {
			v.encode(ValuesOf(c.Dictionary()), c)
		}
	case array.ListLike:
		v.lists = c
	}
	return v
}

// encode sets the values of a dictionary-encoded column. Values of the dictionary may be null too.
func (v *Values) encode(of *Values, column *array.Dictionary) {
	at := column.GetValueIndex
	v.null = func(i int) bool { return column.IsNull(i) || of.null(at(i)) }
	v.unsigned, v.half, v.date = of.unsigned, of.half, of.date
	if of.whole != nil {
		v.whole = func(i int) int64 { return of.whole(at(i)) }
	}
	if of.number != nil {
		v.number = func(i int) float64 { return of.number(at(i)) }
	}
	if of.text != nil {
		v.text = func(i int) string { return of.text(at(i)) }
	}
	if of.moment != nil {
		v.moment = func(i int) time.Time { return of.moment(at(i)) }
	}
}

func widen[T int8 | int16 | int32 | uint8 | uint16 | uint32 | uint64](of func(int) T) func(int) int64 {
	return func(i int) int64 { return int64(of(i)) }
}

// seconds converts values in a unit.
func seconds[T arrow.Duration | arrow.Time32 | arrow.Time64](of func(int) T, unit arrow.TimeUnit) func(int) float64 {
	per := int64(time.Second / unit.Multiplier())
	return func(i int) float64 { return float64(int64(of(i))/per) + float64(int64(of(i))%per)/float64(per) }
}

// Null reports whether a value is null. NaN is not.
func (v *Values) Null(i int) bool { return v.Type == Null || v.null(i) }

// Whole returns an integer, or a boolean as 0 or 1. ok is false if it does not fit int64.
func (v *Values) Whole(i int) (n int64, ok bool) {
	n = v.whole(i)
	return n, !v.unsigned || n >= 0
}

// Number returns a number, or a boolean as 0 or 1.
func (v *Values) Number(i int) float64 {
	switch {
	case v.number != nil:
		return v.number(i)
	case v.unsigned:
		return float64(uint64(v.whole(i)))
	}
	return float64(v.whole(i))
}

// Text returns a text, the word of a number or a boolean, or a time as [value.Time] parses it. It may share the memory of the
// column.
func (v *Values) Text(i int) string {
	switch {
	case v.text != nil:
		return v.text(i)
	case v.date:
		return v.moment(i).Format(time.DateOnly)
	case v.moment != nil:
		return v.moment(i).Format(time.RFC3339Nano)
	case v.number != nil:
		return value.WordOf(v.number(i))
	case v.Type == Boolean:
		return value.WordOfBoolean(v.whole(i) != 0)
	case v.unsigned:
		return strconv.FormatUint(uint64(v.whole(i)), 10)
	}
	return strconv.FormatInt(v.whole(i), 10)
}

// Moment returns a date or a time, in its time zone.
func (v *Values) Moment(i int) time.Time { return v.moment(i) }

// Items returns the items of all lists.
func (v *Values) Items() *Values {
	if v.items == nil {
		v.items = ValuesOf(v.lists.ListValues())
	}
	return v.items
}

// Range returns the first item of a list, and the end of its items.
func (v *Values) Range(i int) (from, to int) {
	first, last := v.lists.ValueOffsets(i)
	return int(first), int(last)
}

// At returns the values of a member of all structs, by its number. A member has values where its struct is null.
func (v *Values) At(member int) *Values {
	structs := v.Column.(*array.Struct)
	if v.members == nil {
		v.members = make([]*Values, structs.NumField())
	}
	if v.members[member] == nil {
		v.members[member] = ValuesOf(structs.Field(member))
	}
	return v.members[member]
}

// Named returns the values of a member by its name; nil if the structs do not have it.
func (v *Values) Named(member string) *Values {
	i, ok := v.Column.DataType().(*arrow.StructType).FieldIdx(member)
	if !ok {
		return nil
	}
	return v.At(i)
}

// AppendNumbers appends the numbers of a range; NaN for a null.
func (v *Values) AppendNumbers(numbers []float64, from, to int) []float64 {
	numbers = slices.Grow(numbers, to-from)
	if v.Column.NullN() == 0 {
		if doubles, ok := Raw[float64](v.Column); ok {
			return append(numbers, doubles[from:to]...)
		}
		if singles, ok := Raw[float32](v.Column); ok {
			for _, v := range singles[from:to] {
				numbers = append(numbers, float64(v))
			}
			return numbers
		}
	}
	for i := from; i < to; i++ {
		number := math.NaN()
		if !v.Null(i) {
			number = v.Number(i)
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// Width returns the number of items of each list, if the type fixes it.
func (v *Values) Width() (n int, fixed bool) {
	t, fixed := v.Column.DataType().(*arrow.FixedSizeListType)
	if !fixed {
		return 0, false
	}
	return int(t.Len()), true
}

// Unsigned reports whether integers may be too large for int64.
func (v *Values) Unsigned() bool { return v.unsigned }

// Half reports whether numbers are of type float16.
func (v *Values) Half() bool { return v.half }

// Raw returns all values of a column of this type. The values of nulls are undefined. ok is false for a column of another type.
func Raw[T uint8 | float32 | float64](column arrow.Array) (raw []T, ok bool) {
	var values any
	switch c := column.(type) {
	case *array.Uint8:
		values = c.Uint8Values()
	case *array.Float32:
		values = c.Float32Values()
	case *array.Float64:
		values = c.Float64Values()
	}
	raw, ok = values.([]T)
	return raw, ok
}

// AppendJSON appends a value of a column as JSON; null if it is not finite.
func AppendJSON(dst []byte, column arrow.Array, i int) []byte {
	if column.IsNull(i) {
		return append(dst, "null"...)
	}
	switch column := column.(type) {
	case *array.Float32:
		return value.AppendNumber(dst, float64(column.Value(i)), 32)
	case *array.Float64:
		return value.AppendNumber(dst, column.Value(i), 64)
	case array.ListLike: // possibly of many features: encoding/json takes ten times as long
		from, to := column.ValueOffsets(i)
		dst = append(dst, '[')
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, column.ListValues(), int(j))
		}
		return append(dst, ']')
	}
	text, err := json.Marshal(column.GetOneForMarshal(i))
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
