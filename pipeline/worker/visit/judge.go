package visit

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Packages examples and link have the same class for labels that a version does not have. Otherwise, this does not compile.
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

// judgeOwn adds the losses of the run's version on the rows of a message that the gate uses. p.loss has the losses of the
// message's rows; first is the index of its first row.
func (p *Processor) judgeOwn(rows accumulate.Rows, offset int64, first int) {
	if !p.judges(rows) {
		return
	}
	split, _ := JudgedSplit(p.Plan)
	groups := p.sum.Field(schemas.FieldJudgedGroups, schemas.GateGroups, 2)
	for i, class := range rows.Classes {
		if w := p.judgedWeight(rows, i); class != examples.Unlabelled && rows.Splits[i] == split && w > 0 {
			at := groups[2*schemas.GateGroup(offset, first+i):]
			at[0] += w
			at[1] += w * float64(p.loss[i])
		}
	}
}

// judges reports whether the visit evaluates the run's version for the gate, and some of the rows count.
func (p *Processor) judges(rows accumulate.Rows) bool {
	split, gated := JudgedSplit(p.Plan)
	return gated && p.newest && p.visit.Stage == len(p.Plan.Stages)-1 && slices.Contains(rows.Splits, split)
}

// judgedWeight returns the weight of a row that the gate uses: errors cost in the gate what they cost in training.
func (p *Processor) judgedWeight(rows accumulate.Rows, row int) float64 {
	return float64(rows.Weights[row]) * p.visit.prepared.ClassWeight(rows.Classes[row])
}

// judgeAgain adds the losses of both versions on the rows of a revisited increment that the gate uses. p.loss has the
// losses of the run's version on the rows of a batch, starting at row first.
func (p *Processor) judgeAgain(rows accumulate.Rows, b *Batch, first int) {
	split, _ := JudgedSplit(p.Plan)
	if p.judged.Choose(rows, rows.Truth, split); len(p.judged.Places) == 0 {
		return
	}
	if p.offered == nil || p.offered.Model() != p.visit.Offered {
		p.offered = p.visit.Offered.Predictor(p.BLAS)
	}
	var own model.Inputs
	p.judged.Gather(&own.Prepared, b.Inputs.Slice(first, first+len(rows.Classes)))
	columns := len(b.Codes) / b.Len() // 0 without trees
	for _, i := range p.judged.Places {
		own.Codes = append(own.Codes, b.Codes[(first+i)*columns:][:columns]...)
	}
	p.offered.MeasureInputs(own, p.judged.Truth, p.judged.Loss, p.judged.Predicted)
	groups := p.sum.Field(schemas.FieldRevisitedGroups, schemas.GateGroups, 3)
	for j, i := range p.judged.Places {
		w, at := p.judgedWeight(rows, i), groups[3*schemas.GateGroup(b.Offset, first+i):]
		at[0] += w
		at[1] += w * float64(p.judged.Loss[j])
		at[2] += w * float64(p.loss[i])
	}
}

// judge adds the losses of the version for subscribers on the rows of a message that the gate uses. numbers are
// the targets in regression; their losses are added separately, each in its own unit, because the version may have
// standardised them differently. A version with another task or loss, or with other labels in a multi-label task, is not
// evaluated: its losses are not comparable.
func (p *surveyor) judge(offset int64, batch *examples.Rows, rows accumulate.Rows, numbers []float64) {
	split, _ := JudgedSplit(p.Plan)
	m := p.offered.Model()
	if !slices.Contains(rows.Splits, split) || m.Task() != p.Plan.Task() || numbers != nil && !slices.Equal(m.Labels(), p.Plan.Targets) ||
		rows.Targets.Rows > 0 && !slices.Equal(m.Labels(), p.labels.Text()) || !SameLoss(p.Plan, m.Manifest.Plan) {
		return
	}
	truth := link.Truth{Classes: rows.Classes}
	if numbers != nil {
		truth.Targets, _ = standardizeTargets(m, numbers, len(p.Plan.Targets))
	} else if rows.Targets.Rows > 0 {
		truth.Targets = rows.Targets
	} else {
		truth.Classes = make([]int32, batch.Rows)
		_ = batch.Classes(truth.Classes, examples.NewLabels(m.Labels()), func(int, string) error { return nil })
	}
	if (batch.Sparse != nil) != m.Sparse() || batch.Align(m.Columns()) != nil {
		return
	}
	if batch.Sparse == nil {
		p.x.Reshape(batch.Rows, m.Width())
		batch.Features(p.x.Data, m.Width())
	}
	if batch.Align(p.shape.Columns) != nil {
		return
	}
	if p.judged.Choose(rows, truth, split); len(p.judged.Places) == 0 {
		return
	}
	own := examples.Rows{Rows: len(p.judged.Places), Cols: m.Width()}
	if batch.Sparse != nil {
		own.Sparse = &examples.SparseRows{}
		for _, i := range p.judged.Places {
			columns, values := batch.Sparse.Row(i)
			for at, column := range columns {
				own.Sparse.Append(column, values[at])
			}
			own.Sparse.End()
		}
	} else {
		var x kernel.Dense
		p.judged.Gather(&x, p.x)
		own.Floats = x.Data
	}
	prediction := p.offered.Measure(&own, p.judged.Truth, p.judged.Loss, p.judged.Predicted)
	fields := 1 + max(len(p.Plan.Targets), 1) // Σw, and Σw·loss, for each target
	offered := p.sum.Field(statistics.FieldOffered, fields)
	losses := make([]float64, fields)
	for j, i := range p.judged.Places {
		w := float64(rows.Weights[i])
		if losses[0] = w; numbers == nil {
			losses[1] = w * float64(p.judged.Loss[j])
		} else {
			for c, unit := range m.TargetScale() {
				e := float64(unit) * (float64(truth.Targets.Row(i)[c]) - float64(prediction.Row(j)[c]))
				losses[1+c] = w * e * e / 2
			}
		}
		floats.Add(offered, losses)
		name := schemas.FieldOfferedGroups
		if !p.Plan.ClassWeight.IsZero() {
			name += "/" + batch.Label(i)
		}
		groups := p.sum.Field(name, schemas.GateGroups, fields)
		floats.Add(groups[fields*schemas.GateGroup(offset, i):][:fields], losses)
	}
}
