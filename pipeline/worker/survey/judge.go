package survey

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/worker/decode"
	"github.com/stagewise/stagewise/pipeline/worker/judge"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// judge adds the losses of the version that subscribers have, of the rows of a message that the gate is about. A row of
// a class that the version does not have is left out. numbers are those of the rows if the run predicts numbers; their
// losses are added apart, each in its own unit, as the version may have standardised them otherwise than the run does.
// A version with another task or loss, or of other labels where a row may have several, judges nothing: its losses
// don't compare.
func (p *processor) judge(found *Findings, offset int64, batch *examples.Batch, rows accumulate.Rows, numbers []float64) {
	split, _ := judge.Split(p.Plan)
	m := p.offered.Model()
	if !slices.Contains(rows.Splits, split) || m.Task() != p.Plan.Task() || numbers != nil && !slices.Equal(m.Labels(), p.Plan.Targets) {
		return
	}
	if rows.Targets.Rows > 0 && !slices.Equal(m.Labels(), p.labels.Text()) {
		return
	}
	if !judge.SameLoss(p.Plan, m.Manifest.Plan) {
		return
	}
	truth := link.Truth{Classes: rows.Classes}
	if numbers != nil {
		truth.Targets, _ = decode.Standardized(m, numbers, len(p.Plan.Targets))
	} else if rows.Targets.Rows > 0 {
		truth.Targets = rows.Targets
	} else {
		truth.Classes = make([]int32, batch.Rows)
		batch.KnownClasses(truth.Classes, examples.NewLabels(m.Labels()), func(string) {})
	}
	if batch.Sparse != m.Sparse() {
		return
	}
	if batch.Align(m.Columns()) != nil {
		return
	}
	if !batch.Sparse {
		decode.Features(&p.x, batch, m.Width())
	}
	if batch.Align(p.shape.Columns) != nil {
		return
	}
	if p.judged.Choose(rows, truth, split); len(p.judged.Places) == 0 {
		return
	}
	var prediction kernel.Dense
	if batch.Sparse {
		prediction = p.judged.MeasureSparse(p.offered, &p.features)
	} else {
		p.judged.Gather(p.x)
		prediction = p.judged.Measure(p.offered.Measure)
	}
	fields := 1 + max(len(p.Plan.Targets), 1) // Σw, and Σw·loss, for numbers of each
	offered := found.sum.Field(statistics.FieldOffered, fields)
	groups := found.sum.Field(schemas.FieldOfferedGroups, schemas.GateGroups, fields)
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
		floats.Add(groups[fields*schemas.GateGroup(offset, i):][:fields], losses)
	}
}
