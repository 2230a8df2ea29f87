package visit

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// judge adds the losses of the version for subscribers on the rows of a message that the gate uses. numbers are
// the targets in regression; their losses are added separately, each in its own unit, because the version may have
// standardised them differently. A version with another task or loss, or with other labels in a multi-label task, is not
// evaluated: its losses are not comparable.
func (p *surveyor) judge(found *Findings, offset int64, batch *examples.Batch, rows accumulate.Rows, numbers []float64) {
	split, _ := JudgedSplit(p.Plan)
	m := p.offered.Model()
	if !slices.Contains(rows.Splits, split) || m.Task() != p.Plan.Task() || numbers != nil && !slices.Equal(m.Labels(), p.Plan.Targets) {
		return
	}
	if rows.Targets.Rows > 0 && !slices.Equal(m.Labels(), p.labels.Text()) {
		return
	}
	if !SameLoss(p.Plan, m.Manifest.Plan) {
		return
	}
	truth := link.Truth{Classes: rows.Classes}
	if numbers != nil {
		truth.Targets, _ = standardizeTargets(m, numbers, len(p.Plan.Targets))
	} else if rows.Targets.Rows > 0 {
		truth.Targets = rows.Targets
	} else {
		truth.Classes = make([]int32, batch.Rows)
		_ = batch.Classes(truth.Classes, examples.NewLabels(m.Labels()), unknownLabel(true, func(string) {}))
	}
	if batch.Sparse != m.Sparse() {
		return
	}
	if batch.Align(m.Columns()) != nil {
		return
	}
	if !batch.Sparse {
		p.x.Reshape(batch.Rows, m.Width())
		batch.Features(p.x.Data, m.Width())
	}
	if batch.Align(p.shape.Columns) != nil {
		return
	}
	if p.judged.choose(rows, truth, split); len(p.judged.Places) == 0 {
		return
	}
	var prediction kernel.Dense
	if batch.Sparse {
		prediction = p.judged.measureSparse(p.offered, &p.features)
	} else {
		p.judged.gather(p.x)
		prediction = p.judged.measure(p.offered.Measure)
	}
	fields := 1 + max(len(p.Plan.Targets), 1) // Σw, and Σw·loss, for each target
	offered := found.sum.Field(statistics.FieldOffered, fields)
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
		groups := found.sum.Field(name, schemas.GateGroups, fields)
		floats.Add(groups[fields*schemas.GateGroup(offset, i):][:fields], losses)
	}
}
