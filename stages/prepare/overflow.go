package prepare

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// A Gram matrix is summed in single precision for some thousands of rows, up to 2¹²⁸. So this bounds the length of a
// row: a million squares of such a length fit, and one row can't spoil the sum of the others.
const maxLength = 1 << 53

// The longest features in the survey's moments. They are centred later, by a mean of up to the same length.
const (
	maxCentred = maxLength / 2
	maxScaled  = 1 << 63 // features divided by their standard deviation may be longer: times since 1970 in nanoseconds are 2⁶¹
)

// Overflows reports whether a row of raw features, dense or the values of a sparse one, is too long for a preparation.
// A missing value (NaN) adds nothing to the length.
func Overflows(p schemas.Prepare, features []float32) bool {
	limit := float64(maxCentred)
	switch {
	case p.Scale == ScaleUnit, p.Values != "" && p.Values != ValuesNone:
		limit = math.MaxFloat32 * math.Sqrt(examples.MaxColumns) // any finite row
	case p.Scale == ScaleStandard && p.PCA == 0: // the Gram matrix is that of unscaled features
		limit = maxScaled
	}
	if !isLonger(features, limit) {
		return false
	}
	square := 0.0
	for _, v := range features {
		if v == v {
			square += float64(v) * float64(v)
		}
	}
	return !(square <= limit*limit)
}

// isLonger reports whether a row is longer than a limit, or is not finite.
func isLonger(row []float32, limit float64) bool {
	return len(row) > 0 && !(float64(kernel.SquaredLength(row)) <= limit*limit)
}

// ClearLong sets the first columns of rows of x that are too long there to 0, and returns these rows.
func ClearLong(x kernel.Dense, columns int) (rows []int) {
	for i := range x.Rows {
		if row := x.Row(i)[:columns]; isLonger(row, maxLength) {
			clear(row)
			rows = append(rows, i)
		}
	}
	return rows
}
