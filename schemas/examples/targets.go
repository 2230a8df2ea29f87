package examples

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/schemas/arrowvalue"
)

// targets are the regression targets of each row.
type targets struct {
	lists *arrowvalue.Values
	items *arrowvalue.Values
	width int // k
}

// setTargets keeps the column of targets, and checks it. A null row has no targets.
func (e *Batch) setTargets(column arrow.Array) error {
	t := &targets{lists: arrowvalue.Of(column)}
	if t.lists.Type == arrowvalue.List {
		t.items = t.lists.Items()
	}
	if t.items == nil || !isFloat(t.items) {
		return fmt.Errorf("type %v, expected a list of float64 or float32", column.DataType())
	}
	first := true
	for row := range e.Rows {
		if t.lists.Null(row) {
			continue
		}
		from, to := t.lists.Range(row)
		if n := to - from; first {
			t.width, first = n, false
		} else if n != t.width {
			return &ValueError{row, -1, fmt.Sprintf("%d targets, but %d in the rows before: expected the same number in each row", n, t.width)}
		}
		for i := from; i < to; i++ {
			v := t.items.Number(i)
			if t.items.Null(i) || math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
				return &ValueError{row, -1, fmt.Sprintf("target %d is null or not a finite float32: expected a number, or null for "+
					"the whole row if it has no targets", i-from)}
			}
		}
	}
	e.targets = t
	return nil
}

// Targets writes the targets of the rows into dst (Rows × k, row-major), and whether each row has them into known,
// which has an element for each row. The targets of a row without any are 0. The error is a *[ValueError] if rows do
// not have k targets.
func (e *Batch) Targets(dst []float64, known []bool, want []string) error {
	clear(dst)
	clear(known)
	k := len(want)
	for row := range e.Rows {
		if e.targets == nil || e.targets.lists.Null(row) || e.forgot(row) || e.unlabelled[row] {
			continue
		}
		if e.targets.width != k {
			return &ValueError{row, -1, fmt.Sprintf("%d targets, expected %d: %.100q", e.targets.width, k, want)}
		}
		known[row] = true
		from, _ := e.targets.lists.Range(row)
		for j := range k {
			dst[row*k+j] = e.targets.items.Number(from + j)
		}
	}
	return nil
}
