package examples

import (
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/bitutil"

	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/value"
)

// values are the texts or the integers of a column, of any Arrow type for them.
type values struct{ *arrowvalue.Values }

// valuesOf returns the values of a column, or false if they are neither text, numbers nor booleans.
func valuesOf(column arrow.Array) (v values, ok bool) {
	v.Values = arrowvalue.Of(column)
	switch v.Type {
	case arrowvalue.Null, arrowvalue.Boolean, arrowvalue.Whole, arrowvalue.Number, arrowvalue.Text:
		return v, true
	}
	return v, false
}

// isNull reports whether there is no value. NaN counts as none.
func (v *values) isNull(row int) bool {
	if v.Null(row) {
		return true
	}
	return v.Type == arrowvalue.Number && v.Number(row) != v.Number(row)
}

// isWhole reports whether all values are integers that fit int64.
func (v *values) isWhole() bool { return v.Type == arrowvalue.Whole && !v.Unsigned() }

// label returns a value that is not null as a label.
func (v *values) label(row int) string {
	if v.Type == arrowvalue.Whole {
		return v.Text(row)
	}
	return strings.Clone(value.Label(v.Text(row)))
}

// check checks the values of all columns.
func (e *Batch) check() error {
	for i := range e.Rows {
		if e.weights != nil {
			if e.weights.Null(i) {
				return &ValueError{i, -1, "weight is null: expected a finite number ≥ 0"}
			}
			if w := e.weights.Number(i); !(w >= 0) || math.IsInf(float64(float32(w)), 1) {
				return &ValueError{i, -1, fmt.Sprintf("weight %v: expected a finite number ≥ 0", w)}
			}
		}
		if e.splits != nil && !e.splits.Null(i) {
			if _, err := ParseSplit(e.splits.Text(i)); err != nil {
				return &ValueError{i, -1, err.Error()}
			}
		}
	}
	if err := e.checkLabels(); err != nil {
		return err
	}
	switch {
	case e.Sparse:
		return e.checkSparse()
	case e.singles != nil:
		return checkDense(e, e.singles)
	case e.doubles != nil:
		return checkDense(e, e.doubles)
	}
	return nil
}

// checkDense checks that the features are finite, and determines whether any is missing. A value that is too large for
// float32 is not an error of the message: only its row is unusable.
func checkDense[T float32 | float64](e *Batch, features []T) error {
	column, n := e.values.Column, e.Rows*e.Width
	if column.NullN() > 0 {
		e.missing = bitutil.CountSetBits(column.NullBitmapBytes(), column.Data().Offset()+e.first, n) < n
	}
	for i, v := range features[e.first : e.first+n] {
		if v-v != 0 && !(e.missing && column.IsNull(e.first+i)) { // 0 only if v is finite
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
		from, to := e.lists.Range(row)
		last := int64(-1)
		for i := from; i < to; i++ {
			v := e.singles[i]
			index, _ := e.indices.Whole(i)
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

// FromBytes converts src into dst. It panics if their lengths differ.
func FromBytes(dst []float32, src []uint8) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("schemas: %d bytes into %d values", len(src), len(dst)))
	}
	for i, v := range src {
		// The bits of 2²³ + v. A processor converts integers four times slower.
		dst[i] = math.Float32frombits(0x4B000000|uint32(v)) - 1<<23
	}
}

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
			from, to := e.lists.Range(row)
			for i := from; i < to; i++ {
				index, _ := e.indices.Whole(i)
				dst[row*width+int(index)] = e.singles[i]
			}
		}
	case e.bytes != nil:
		FromBytes(dst, e.bytes[e.first:e.first+len(dst)])
		if e.deltas != nil {
			e.align(dst)
		}
	case e.doubles != nil:
		for i, v := range e.doubles[e.first : e.first+len(dst)] {
			if e.deltas != nil {
				v += e.deltas[i%e.Width]
			}
			dst[i] = float32(v)
		}
		e.markMissing(dst)
	default:
		copy(dst, e.singles[e.first:e.first+len(dst)])
		if e.deltas != nil {
			e.align(dst)
		}
		e.markMissing(dst)
	}
	for row, forgotten := range e.forgotten {
		if forgotten {
			clear(dst[row*width : (row+1)*width])
		}
	}
}

// markMissing overwrites features that are null in their column with NaN.
func (e *Batch) markMissing(dst []float32) {
	if !e.missing {
		return
	}
	column, none := e.values.Column, float32(math.NaN())
	valid, from := column.NullBitmapBytes(), column.Data().Offset()+e.first
	for i := range dst {
		if bitutil.BitIsNotSet(valid, from+i) {
			dst[i] = none
		}
	}
}

// Bytes returns the features, Rows × Width, row-major, if they are unmodified bytes and no row was forgotten; otherwise
// nil. The slice is shared with e.
func (e *Batch) Bytes() []uint8 {
	if e.bytes == nil || e.forgotten != nil || e.deltas != nil {
		return nil
	}
	return e.bytes[e.first : e.first+e.Rows*e.Width]
}

// Weight returns the weight of a row, or 1 if the message has no weights. Forgotten rows have weight 0.
func (e *Batch) Weight(row int) float32 {
	if e.forgot(row) {
		return 0
	}
	if e.weights == nil {
		return 1
	}
	return float32(e.weights.Number(row))
}

// Split returns the split of a row, by default Train.
func (e *Batch) Split(row int) Split {
	if e.splits == nil || e.splits.Null(row) {
		return Train
	}
	split, _ := ParseSplit(e.splits.Text(row)) // check has returned the errors
	return split
}
