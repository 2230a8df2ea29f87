package protocol

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// Numbers of p × k matrices of float64 for a stage on sparse rows.
const (
	// crossMoments is the number for the gradient and the weights: sums, records and messages.
	crossMoments = 6
	// solverMoments is the additional number of the solver: for conjugate gradients the minimum, its gradient, the previous
	// step and its product, for L-BFGS at least a pair of steps.
	solverMoments = 8
	// minSparseBytes is the memory that matrices may always take: messages in transit to a broker take as much.
	minSparseBytes = 64 << 20
)

// SparseBytes returns the memory of the matrices of a stage of sparse rows with p columns and k classes, in bytes. solves means that
// the process solves the stage.
func SparseBytes(p, k int64, solves bool) int64 {
	if solves {
		return 8 * (crossMoments + solverMoments) * p * k
	}
	return 8 * crossMoments * p * k
}

// CheckSparse returns an error if the matrices of a stage of sparse rows exceed the memory of a process in bytes, with the size of both.
// A memory of 0 has no limit.
func CheckSparse(memory, p, k int64, solves bool) error {
	if need := SparseBytes(p, k, solves); memory > 0 && need > max(memory, minSparseBytes) {
		return fmt.Errorf("the matrices of %s columns of sparse rows and %d classes take %s, but memory is %s: set memory to at least %d, "+
			"or a larger prepare.min_rows", humanize.Comma(p), k, humanize.IBytes(uint64(need)), humanize.IBytes(uint64(memory)), need)
	}
	return nil
}
