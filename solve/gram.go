package solve

import (
	"strconv"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// Values of the key `gram_rows` besides numbers.
const (
	GramAuto = "auto" // a sample where that is faster
	GramAll  = "all"  // all training rows
)

// A Gram matrix of a sample preconditions as well as one of all rows if it has a few rows per column. Measured on MNIST
// with softmax and p = 1024: from 5,000, 10,000 and 60,000 rows L-BFGS needs 7, 7 and 6 passes to the same J.
const (
	minSample     = 10_000
	rowsPerColumn = 5
	// curvedRowsPerColumn is for curvature-weighted matrices: the curvature of most rows of later stages is near 0. On
	// KRK (18 classes, 21,042 rows, 22 blocks of 1024 leaves) 10,000 rows end with 19.4 % errors, all rows with 15.7 %.
	curvedRowsPerColumn = 50
)

// sampleThreshold is the number of columns from which a Gram matrix of all rows costs more than ten more passes with
// these columns and some ten classes.
const sampleThreshold = 2400

// GramRows returns the number of rows, out of the given training rows, for the Gram matrix of a stage with p columns.
// curved is [Shape.Curved].
func GramRows(stage schemas.Stage, p int, curved bool, rows int64) int64 {
	l, perColumn := link.Named(stage.Link), int64(rowsPerColumn)
	if curved {
		perColumn = curvedRowsPerColumn
	}
	sample := max(minSample, perColumn*int64(p))
	switch {
	case l.Quadratic && stage.Passes == 1:
		return rows // the one pass must be exact
	case stage.GramRows != GramAuto:
		if n, err := strconv.ParseInt(stage.GramRows, 10, 64); err == nil {
			return min(n, rows)
		}
		return rows
	case 2*sample > rows:
		return rows // a sample would save little
	case l.Learnt:
		return rows // Algorithm 2 makes each step once
	case methodNamed(stage.Method).wholeGram:
		return rows
	case l.Quadratic && int64(p)*(rows-sample) < sampleThreshold*rows:
		return rows // the stage then ends after one pass
	}
	return sample
}
