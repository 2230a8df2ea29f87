package examples

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Missing reports whether any feature is missing.
func (r *Rows) Missing() bool {
	values := r.Floats
	if r.Sparse != nil {
		values = r.Sparse.Values
	}
	return slices.ContainsFunc(values, func(v float32) bool { return v != v })
}

// Align makes [Rows.Features] return the features with the offsets of these columns, which may differ from those of the message, for
// example if files are ingested at different times. A message without columns is assumed to have the same columns. An error wraps
// [wire.ErrDamaged].
func (r *Rows) Align(columns Columns) error {
	r.deltas = nil
	text := r.ColumnsText()
	if r.Sparse != nil || columns == nil || text == "" || !columns.HasOffsets() && !strings.Contains(text, `"offset"`) {
		return nil
	}
	own, err := ParseColumns(text)
	if err != nil {
		return err
	}
	if own.Features() != r.Cols || columns.Features() != r.Cols {
		return fmt.Errorf("%w: %d features, its columns have %d", wire.ErrDamaged, r.Cols, own.Features())
	}
	deltas, differ, at := make([]float64, r.Cols), false, 0
	for i, column := range own {
		deltas[at] = column.Offset - columns[min(i, len(columns)-1)].Offset
		differ = differ || deltas[at] != 0
		at += column.Features()
	}
	if differ {
		r.deltas = deltas
	}
	return nil
}

// Features writes the features into dst, Rows × width, row-major. It does not modify the rows. Missing features are NaN. The width is
// Cols for dense rows and at least Cols for sparse rows. Features panics on any other width or length.
func (r *Rows) Features(dst []float32, width int) {
	fits := width == r.Cols || r.Sparse != nil && width > r.Cols || r.Rows == 0
	if len(dst) != r.Rows*width || !fits {
		panic(fmt.Sprintf("schemas: features of %d × %d into %d values of width %d", r.Rows, r.Cols, len(dst), width))
	}
	switch {
	case r.Sparse != nil:
		r.Sparse.Leading(dst, width)
	case r.Bytes != nil:
		for i, v := range r.Bytes {
			// The bits of 2²³ + v. A processor converts integers four times slower.
			dst[i] = math.Float32frombits(0x4B000000|uint32(v)) - 1<<23
		}
	default:
		copy(dst, r.Floats)
	}
	for i := range dst {
		if r.deltas == nil {
			break
		}
		if delta := r.deltas[i%width]; delta != 0 {
			v := float64(dst[i])
			if r.doubles != nil {
				v = r.doubles[i]
			}
			dst[i] = float32(v + delta)
		}
	}
	for row, forgotten := range r.forgotten {
		if forgotten {
			clear(dst[row*width : (row+1)*width])
		}
	}
}

// AreBytes reports whether the features are bytes as a message has them.
func (r *Rows) AreBytes() bool { return r.Bytes != nil && r.deltas == nil }
