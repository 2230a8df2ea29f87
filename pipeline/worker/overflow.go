package worker

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// A row that overflows would make sums that others share infinite. So it is taken to have no label: its message counts, and nothing is learnt
// of it. Whether a row overflows depends on the plan, the row and the survey's result, so each visit finds the rows that the survey has found.
//
// The survey of a full run sees features alone. If the inputs of a row overflow once they are prepared, each visit leaves the row out. If its features of a
// stage overflow, they are 0: see [stages.Map.Expand]. If a score does, it stays what it was before the stage: see [sink.TakeBack]. The survey of an update
// sees all of them.

// maxWeight bounds the weight of a row: a tile of the Gram matrix has its product with the square of an input.
const maxWeight = 1 << 63

// overflowError says which rows of a message overflow. It wraps [schemas.ErrDamaged].
type overflowError struct {
	what string
	rows []int
}

// maxRowsNamed is how many rows a reason names.
const maxRowsNamed = 3

// Error names the first rows.
func (e *overflowError) Error() string {
	var named []string
	for _, row := range e.rows[:min(len(e.rows), maxRowsNamed)] {
		named = append(named, strconv.Itoa(row))
	}
	if more := len(e.rows) - maxRowsNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	verb := "are"
	if len(e.rows) == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s %s %s left out: the %s overflow", english.PluralWord(len(e.rows), "row", ""), english.WordSeries(named, "and"), verb, e.what)
}

// Unwrap returns ErrDamaged.
func (e *overflowError) Unwrap() error { return schemas.ErrDamaged }

// Overflowing returns the rows of a message whose features or weight overflow, prepared as p says.
func Overflowing(p schemas.Prepare, examples *schemas.Examples) []int {
	var x kernel.Dense
	var sparse schemas.SparseRows
	readFeatures(&x, &sparse, examples)
	return overflowing(p, examples, x, &sparse)
}

// overflowing is Overflowing, given the features of dense rows in x, or those of sparse ones in sparse.
func overflowing(p schemas.Prepare, examples *schemas.Examples, x kernel.Dense, sparse *schemas.SparseRows) (rows []int) {
	for i := range examples.Rows {
		var values []float32 // bytes can't overflow
		switch {
		case examples.Sparse:
			_, values = sparse.Row(i)
		case examples.Bytes() == nil:
			values = x.Row(i)
		}
		if stages.Overflows(p, values) || examples.Weight(i) > maxWeight {
			rows = append(rows, i)
		}
	}
	return rows
}

// leaveOut takes their labels from the rows of a message that overflow, and returns them. The features are as in overflowing.
func leaveOut(plan *schemas.Plan, examples *schemas.Examples, x kernel.Dense, sparse *schemas.SparseRows) []int {
	rows := overflowing(plan.Prepare, examples, x, sparse)
	for _, i := range rows {
		examples.Unlabel(i)
	}
	return rows
}

// leaveOut makes rows of the message that is surveyed, which overflow, rows without a label, and notes them. The error is that of noteOverflow.
func (p *surveyProcessor) leaveOut(found *findings, what string, overflowing []int, rows accumulate.Rows) error {
	for _, i := range overflowing {
		rows.Classes[i] = schemas.Unlabelled
	}
	return p.noteOverflow(found, what, overflowing)
}

// noteOverflow notes that rows of the message that is surveyed overflow. It returns an error if the run stops at them.
func (p *surveyProcessor) noteOverflow(found *findings, what string, rows []int) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row int) bool { return slices.Contains(p.leftOut, row) })
	if len(rows) == 0 {
		return nil
	}
	err := &overflowError{what, rows}
	if p.plan.OnBadMessage == schemas.StopOnBadMessage {
		return err
	}
	p.leftOut, p.reasons = append(p.leftOut, rows...), append(p.reasons, err.Error())
	found.passedOver.Count(schemas.Overflowing, int64(len(rows)))
	return nil
}

// countOverflowed adds rows that the first visit of a stage leaves out.
func (p *stageProcessor) countOverflowed(sum *accumulate.Sum, rows int) {
	if rows > 0 && p.visit.Number == 0 {
		sum.Field(schemas.FieldOverflow, 1)[0] += float64(rows)
	}
}
