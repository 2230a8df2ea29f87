package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// judgeOwn adds the losses of the run's version on the rows of a message that the gate uses. p.loss has the losses of the
// message's rows; first is the index of its first row.
func (p *Processor) judgeOwn(sum *accumulate.Sum, rows accumulate.Rows, offset int64, first int) {
	split, gated := JudgedSplit(p.Plan)
	if !gated || !p.newest || p.visit.Stage < len(p.Plan.Stages)-1 || !slices.Contains(rows.Splits, split) {
		return
	}
	groups := sum.Field(schemas.FieldJudgedGroups, schemas.GateGroups, 2)
	for i, class := range rows.Classes {
		if w := p.judgedWeight(rows, i); class != examples.Unlabelled && rows.Splits[i] == split && w > 0 {
			at := groups[2*schemas.GateGroup(offset, first+i):]
			at[0] += w
			at[1] += w * float64(p.loss[i])
		}
	}
}

// judgedWeight returns the weight of a row that the gate uses: errors cost in the gate what they cost in training.
func (p *Processor) judgedWeight(rows accumulate.Rows, row int) float64 {
	return float64(rows.Weights[row]) * p.Prepared.ClassWeight(rows.Classes[row])
}

// judgeAgain adds the losses of both versions on the rows of a revisited increment that the gate uses. p.loss has the
// losses of the run's version on the rows of a batch, starting at row first.
func (p *Processor) judgeAgain(sum *accumulate.Sum, rows accumulate.Rows, inputs model.Inputs, offset int64, first int) {
	split, _ := JudgedSplit(p.Plan)
	if p.judged.choose(rows, rows.Truth, split); len(p.judged.Places) == 0 {
		return
	}
	if p.offered == nil || p.offered.Model() != p.visit.Offered {
		p.offered = p.visit.Offered.Predictor(p.BLAS)
	}
	p.judged.gather(inputs.Prepared)
	codes := p.judged.codes(inputs)
	p.judged.measure(func(x kernel.Dense, truth link.Truth, loss []float32, predicted []int32) kernel.Dense {
		return p.offered.MeasureInputs(model.Inputs{Prepared: x, Codes: codes}, truth, loss, predicted)
	})
	groups := sum.Field(schemas.FieldRevisitedGroups, schemas.GateGroups, 3)
	for j, i := range p.judged.Places {
		w, at := p.judgedWeight(rows, i), groups[3*schemas.GateGroup(offset, first+i):]
		at[0] += w
		at[1] += w * float64(p.judged.Loss[j])
		at[2] += w * float64(p.loss[i])
	}
}

// preparedRows returns the rows [from, to) of a batch.
func preparedRows(b *partition.Batch, from, to int) model.Inputs {
	columns := len(b.Codes) / b.Len()
	return model.Inputs{Prepared: b.Inputs.Slice(from, to), Codes: b.Codes[from*columns : to*columns]}
}
