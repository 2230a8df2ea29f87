package examples

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/schemas/value"
)

// values are the texts or the integers of a column, of any Arrow type for them. At most one of words and numbers is set; without both,
// the column has only nulls.
type values struct {
	isNull  func(row int) bool
	words   func(row int) string // shares the memory of the column
	numbers func(row int) int64
}

// text returns a value that is not null as text.
func (v *values) text(row int) string {
	if v.words != nil {
		return strings.Clone(value.Label(v.words(row)))
	}
	return strconv.FormatInt(v.numbers(row), 10)
}

// valuesOf returns the values of a column, or false if they are neither text, numbers nor booleans. Numbers and booleans
// are returned as words, except integers that fit int64.
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

// floatValues returns the values of a column of floating-point numbers as words. NaN is treated as null.
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

// wholeNumbers returns the values of an integer column, or false for any other column and for uint64.
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

// check checks the values of all columns.
func (e *Batch) check() error {
	for i := range e.Rows {
		if e.weights != nil {
			if e.weights.IsNull(i) {
				return &ValueError{i, -1, "weight is null: expected a finite number ≥ 0"}
			}
			if w := e.weight(i); !(w >= 0) || math.IsInf(float64(float32(w)), 1) {
				return &ValueError{i, -1, fmt.Sprintf("weight %v: expected a finite number ≥ 0", w)}
			}
		}
		if e.splits.words != nil && !e.splits.isNull(i) {
			if _, err := ParseSplit(e.splits.words(i)); err != nil {
				return &ValueError{i, -1, err.Error()}
			}
		}
		if e.sets == nil && e.labels.words != nil && !e.labels.isNull(i) {
			if label := e.labels.words(i); len(label) > MaxLabel || !utf8.ValidString(label) {
				return &ValueError{i, -1, fmt.Sprintf("label of %d bytes: expected at most %d of UTF-8", len(label), MaxLabel)}
			}
		}
	}
	if err := e.checkLists(); err != nil {
		return err
	}
	switch {
	case e.Sparse:
		return e.checkSparse()
	case e.floats != nil:
		return checkDense(e, e.floats, e.floats.Float32Values())
	case e.doubles != nil:
		return checkDense(e, e.doubles, e.doubles.Float64Values())
	}
	return nil
}

// checkDense checks that the features are finite, and determines whether any is missing. A value that is too large for
// float32 is not an error of the message: only its row is unusable.
func checkDense[T float32 | float64](e *Batch, column arrow.Array, features []T) error {
	nulls := column.NullN() > 0
	for i, v := range features[e.first : e.first+e.Rows*e.Width] {
		if nulls && column.IsNull(e.first+i) {
			e.missing = true
			continue
		}
		if v-v != 0 { // 0 only if v is finite
			return &ValueError{i / e.Width, i % e.Width, fmt.Sprintf("%v is not a finite number", v)}
		}
	}
	return nil
}

// checkSparse checks sparse features and determines the width.
func (e *Batch) checkSparse() error {
	if text := e.Columns(); text != "" {
		columns, err := ParseColumns(text)
		if err != nil {
			return err
		}
		e.leading = columns.Features()
	}
	for row := range e.Rows {
		from, to := e.lists.ValueOffsets(row)
		last := int64(-1)
		for i := int(from); i < int(to); i++ {
			index, v := e.indices(i), e.floats.Value(i)
			switch {
			case index <= last || index > math.MaxInt32-1:
				return &ValueError{row, -1, fmt.Sprintf("index %d after %d: expected ascending indices below 2³¹-1", index, last)}
			case v != v && index < int64(e.leading):
				e.missing = true
			case v-v != 0:
				return &ValueError{row, int(index), fmt.Sprintf("%v is not a finite number", v)}
			}
			last = index
		}
		e.Width = max(e.Width, int(last)+1)
	}
	return nil
}

// Columns returns the table columns of the features in the format of [Columns.Text]; "" if unknown. Decode them with [ParseColumns].
func (e *Batch) Columns() string {
	metadata := e.record.Schema().Metadata()
	text, _ := metadata.GetValue(metadataColumns)
	return text
}

// Image returns the image shape of the examples in the format of [Image.Text]; "" if unknown. Decode it with [ParseImage].
func (e *Batch) Image() string {
	metadata := e.record.Schema().Metadata()
	text, _ := metadata.GetValue(metadataImage)
	return text
}

// Missing reports whether any feature is missing.
func (e *Batch) Missing() bool { return e.missing }

// Features writes the features into dst, Rows × width, row-major. Missing features are NaN. The width is Width for dense
// examples and at least Width for sparse examples. Features panics on any other width or length.
func (e *Batch) Features(dst []float32, width int) {
	if len(dst) != e.Rows*width || width < e.Width || !e.Sparse && width != e.Width {
		panic(fmt.Sprintf("schemas: features of %d × %d into %d values of width %d", e.Rows, e.Width, len(dst), width))
	}
	switch {
	case e.Sparse:
		clear(dst)
		for row := range e.Rows {
			from, to := e.lists.ValueOffsets(row)
			for i := int(from); i < int(to); i++ {
				dst[row*width+int(e.indices(i))] = e.floats.Value(i)
			}
		}
	case e.bytes != nil:
		for i, v := range e.bytes.Uint8Values()[e.first : e.first+len(dst)] {
			dst[i] = float32(v)
		}
		if e.deltas != nil {
			e.align(dst)
		}
	case e.doubles != nil:
		for i, v := range e.doubles.Float64Values()[e.first : e.first+len(dst)] {
			if e.deltas != nil {
				v += e.deltas[i%e.Width]
			}
			dst[i] = float32(v)
		}
		e.markMissing(dst, e.doubles)
	default:
		copy(dst, e.floats.Float32Values()[e.first:e.first+len(dst)])
		if e.deltas != nil {
			e.align(dst)
		}
		e.markMissing(dst, e.floats)
	}
	for row, forgotten := range e.forgotten {
		if forgotten {
			clear(dst[row*width : (row+1)*width])
		}
	}
}

// markMissing overwrites features that are null in their column with NaN.
func (e *Batch) markMissing(dst []float32, column arrow.Array) {
	if !e.missing {
		return
	}
	for i := range dst {
		if column.IsNull(e.first + i) {
			dst[i] = float32(math.NaN())
		}
	}
}

// Bytes returns the features, Rows × Width, row-major, if they are unmodified bytes and no row was forgotten; otherwise
// nil. The slice is shared with e.
func (e *Batch) Bytes() []uint8 {
	if e.bytes == nil || e.forgotten != nil || e.deltas != nil {
		return nil
	}
	return e.bytes.Uint8Values()[e.first : e.first+e.Rows*e.Width]
}

// Weight returns the weight of a row, or 1 if the message has no weights. Forgotten rows have weight 0.
func (e *Batch) Weight(row int) float32 {
	if e.forgot(row) {
		return 0
	}
	if e.weights == nil {
		return 1
	}
	return float32(e.weight(row))
}

// Split returns the split of a row, by default Train.
func (e *Batch) Split(row int) Split {
	if e.splits.words == nil || e.splits.isNull(row) {
		return Train
	}
	split, _ := ParseSplit(e.splits.words(row)) // check has returned the errors
	return split
}

// Unlabel removes the label and the targets of a row, so that it is not used for training.
func (e *Batch) Unlabel(row int) {
	if e.unlabelled == nil {
		e.unlabelled = map[int]bool{}
	}
	e.unlabelled[row] = true
}

// Label returns the label of a labelled row as text, which stays valid after Release. Label panics without a label
// column. It must not be used for messages with lists of labels.
func (e *Batch) Label(row int) string { return e.label(row) }
