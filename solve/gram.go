package solve

import (
	"strconv"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// A Gram matrix of a sample is as good a preconditioner as one of all rows once
// it has a few rows for each column. Measured on MNIST, softmax, p = 1024: from
// 5,000, 10,000 and 60,000 rows L-BFGS needs 7, 7 and 6 passes to the same J.
const (
	leastSample   = 10_000
	rowsPerColumn = 5
)

// dear is how many columns a Gram matrix has to have for ten more passes over
// p columns and some ten classes to cost less than all of its rows.
const dear = 2400

// GramRows is how many of so many training rows the Gram matrix of a stage with
// p columns is made of: rows if all.
func GramRows(stage schemas.Stage, p int, rows int64) int64 {
	l, least := link.Named(stage.Link), max(leastSample, rowsPerColumn*int64(p))
	switch {
	case l.Quadratic && stage.Passes == 1:
		return rows // the one pass that there is has to be exact
	case stage.GramRows != GramAuto:
		if n, err := strconv.ParseInt(stage.GramRows, 10, 64); err == nil {
			return min(n, rows)
		}
		return rows
	case 2*least > rows:
		return rows // nothing is gained
	case l.Learnt:
		return rows // Algorithm 2 makes each step once
	case stage.Method == MethodPaper || stage.Method == MethodAccelerated:
		return rows // a fixed step that a sample does not majorise is halved for good
	case l.Quadratic && int64(p)*(rows-least) < dear*rows:
		return rows // it ends after one pass then
	}
	return least
}
