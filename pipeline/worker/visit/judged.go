package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// A label that a version does not have is a class of the link of its last stage too.
const _ = uint(examples.Unknown-link.Unknown) + uint(link.Unknown-examples.Unknown)

// JudgedSplit returns the split that the run's gate uses; false if the run has no gate.
func JudgedSplit(plan *schemas.Plan) (examples.Split, bool) {
	if plan.Chain == nil || plan.Chain.Gate == nil {
		return 0, false
	}
	split, err := examples.ParseSplit(plan.Chain.Gate.Split)
	return split, err == nil
}

// SameLoss reports whether the last stages of two plans have the same loss, so that their losses are comparable.
func SameLoss(plan, other *schemas.Plan) bool {
	return model.LinkOf(plan, len(plan.Stages)-1).SameLoss(model.LinkOf(other, len(other.Stages)-1))
}

// newestJudged returns the place of the newest increment; 0 for a run outside a chain.
func newestJudged(plan *schemas.Plan) int {
	if plan.Chain == nil {
		return 0
	}
	return plan.Chain.Newest()
}

// JudgedRows are the rows of a message that the gate uses. The zero value has none.
type JudgedRows struct {
	Places    []int // indices of the rows in the message
	truth     link.Truth
	features  kernel.Dense
	sparse    examples.SparseRows
	Loss      []float32
	predicted []int32
}

// choose selects the rows of a split that have a label and a weight.
func (j *JudgedRows) choose(rows accumulate.Rows, truth link.Truth, split examples.Split) {
	j.Places, j.truth.Classes = j.Places[:0], j.truth.Classes[:0]
	for i, class := range truth.Classes {
		if class != examples.Unlabelled && rows.Splits[i] == split && rows.Weights[i] > 0 {
			j.Places, j.truth.Classes = append(j.Places, i), append(j.truth.Classes, class)
		}
	}
	j.truth.Targets.Reshape(0, 0)
	if truth.Targets.Rows > 0 {
		gatherRows(&j.truth.Targets, truth.Targets, j.Places)
	}
}

// gather copies the features of the rows.
func (j *JudgedRows) gather(features kernel.Dense) { gatherRows(&j.features, features, j.Places) }

// codes returns the codes of the rows, a subset of the prepared rows; nil if these have none.
func (j *JudgedRows) codes(of model.Inputs) (codes []uint8) {
	if len(of.Codes) == 0 {
		return nil
	}
	columns := len(of.Codes) / of.Prepared.Rows
	for _, i := range j.Places {
		codes = append(codes, of.Codes[i*columns:][:columns]...)
	}
	return codes
}

// measure computes the losses of a version's predictions for the rows, and returns the predictions.
func (j *JudgedRows) measure(by func(kernel.Dense, link.Truth, []float32, []int32) kernel.Dense) kernel.Dense {
	n := len(j.Places)
	j.Loss, j.predicted = slices.Grow(j.Loss[:0], n)[:n], slices.Grow(j.predicted[:0], n)[:n]
	return by(j.features, j.truth, j.Loss, j.predicted)
}

// measureSparse is measure for a version on sparse rows. all are the rows of the message.
func (j *JudgedRows) measureSparse(by *model.Predictor, all *examples.SparseRows) kernel.Dense {
	j.sparse.Reset()
	for _, i := range j.Places {
		columns, values := all.Row(i)
		for at, column := range columns {
			j.sparse.Append(column, values[at])
		}
		j.sparse.End()
	}
	n := len(j.Places)
	j.Loss, j.predicted = slices.Grow(j.Loss[:0], n)[:n], slices.Grow(j.predicted[:0], n)[:n]
	return by.MeasureSparse(&j.sparse, j.truth, j.Loss, j.predicted)
}

// gatherRows copies rows of a matrix into dst.
func gatherRows(dst *kernel.Dense, from kernel.Dense, rows []int) {
	dst.Reshape(len(rows), from.Cols)
	for j, i := range rows {
		copy(dst.Row(j), from.Row(i))
	}
}
