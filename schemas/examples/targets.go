package examples

import (
	"fmt"
	"math"
	"slices"
)

// CopyTargets writes the targets of the rows into dst (Rows × k, row-major), and whether each row has them into known, which has an element
// for each row. The targets of a row without any are 0. The error is a *[ValueError] if rows do not have k targets.
func (r *Rows) CopyTargets(dst []float64, known []bool, want []string) error {
	clear(dst)
	clear(known)
	if r.Targets == nil {
		return nil
	}
	k := len(r.Targets) / max(r.Rows, 1)
	for row := range r.Rows {
		own := r.Targets[row*k : (row+1)*k]
		if r.left(row) || slices.ContainsFunc(own, math.IsNaN) {
			continue
		}
		if k != len(want) {
			return &ValueError{row, -1, fmt.Sprintf("%d targets, expected %d: %.100q", k, len(want), want)}
		}
		known[row] = true
		copy(dst[row*k:], own)
	}
	return nil
}
