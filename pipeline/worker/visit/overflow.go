package visit

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
)

// A row that overflows would make shared sums infinite. So it is treated as unlabelled: its message counts, but the row is
// not trained on. Whether a row overflows depends on the plan, the row and the survey's result, so each visit finds the
// same rows as the survey.
//
// The survey of a full run only checks features. If the inputs of a row overflow during preparation, each visit excludes
// the row. If its features of a stage overflow, they are set to 0: see [stages.Map.Expand]. If a score overflows, it keeps
// its value from before the stage: see [sink.TakeBack]. The survey of an update checks all of these.

// maxWeight is the maximum weight of a row: a tile of the Gram matrix has its product with the square of an input.
const maxWeight = 1 << 63

// named lists things in a reason: the first three, and the number of others.
func named(all []string) string {
	const most = 3
	if more := len(all) - most; more > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("%d more", more))
	}
	return english.WordSeries(all, "and")
}

// overflowError returns the error for rows of a message that overflow, with the first ones. what is the overflowing quantity: "features".
func overflowError(what string, rows []int) error {
	var list []string
	for _, row := range rows {
		list = append(list, strconv.Itoa(row))
	}
	return fmt.Errorf("%s %s %s left out: the %s overflow", english.PluralWord(len(rows), "row", ""), named(list),
		english.PluralWord(len(rows), "is", "are"), what)
}

// Overflows finds rows that overflow. It keeps its memory between messages. The zero value is ready; it is not safe for concurrent use.
type Overflows struct {
	x kernel.Dense
}

// In returns the rows of a message whose features or weight overflow, when prepared with p.
func (o *Overflows) In(p schemas.Prepare, batch *examples.Rows) []int {
	if !batch.AreBytes() { // which need not be read
		readFeatures(&o.x, batch)
	}
	return overflowing(p, batch, o.x)
}

// overflowing is [Overflows.In] for dense features that are already in x.
func overflowing(p schemas.Prepare, examples *examples.Rows, x kernel.Dense) (rows []int) {
	for i := range examples.Rows {
		var values []float32 // bytes can't overflow
		switch {
		case examples.Sparse != nil:
			_, values = examples.Sparse.Row(i)
		case !examples.AreBytes():
			values = x.Row(i)
		}
		if stages.Overflows(p, values) || examples.Weight(i) > maxWeight {
			rows = append(rows, i)
		}
	}
	return rows
}

// leaveOutOverflows removes the labels of overflowing rows, and returns the rows. The features are as in overflowing.
func leaveOutOverflows(plan *schemas.Plan, examples *examples.Rows, x kernel.Dense) []int {
	rows := overflowing(plan.Prepare, examples, x)
	for _, i := range rows {
		examples.Unlabel(i)
	}
	return rows
}

// leaveOut treats overflowing rows of the current message as unlabelled, and records them. The error is that of
// noteOverflow.
func (p *surveyor) leaveOut(what string, overflowing []int, rows accumulate.Rows) error {
	for _, i := range overflowing {
		rows.Classes[i] = examples.Unlabelled
	}
	return p.noteOverflow(what, overflowing)
}

// noteOverflow records overflowing rows of the current message. It returns an error if the run is configured to stop at
// them.
func (p *surveyor) noteOverflow(what string, rows []int) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row int) bool { return slices.Contains(p.leftOut, row) })
	if len(rows) == 0 {
		return nil
	}
	err := overflowError(what, rows)
	if p.Plan.OnBadMessage == schemas.StopOnBadMessage {
		return err
	}
	p.leftOut, p.reasons = append(p.leftOut, rows...), append(p.reasons, err.Error())
	p.found.PassedOver.Count(coverage.Overflowing, int64(len(rows)))
	return nil
}
