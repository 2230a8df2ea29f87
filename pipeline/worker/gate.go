package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// offeredModel returns the version that subscribers have, which the gate of the run compares with; nil if the run has no gate, or the version
// is gone.
func (w *Worker) offeredModel(ctx context.Context) (*model.Model, error) {
	if _, gated := w.gateSplit(); !gated {
		return nil, nil
	}
	offered := &w.plan.Chain.Gate.Offered
	m, err := w.ModelOf(ctx, offered)
	if errors.As(err, new(*run.NoVersionError)) || errors.As(err, new(*run.GoneError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the version that is offered: %w", err)
	}
	return m, nil
}

// newestPlace returns the place of the newest increment; 0 for a run of no chain.
func (w *Worker) newestPlace() int {
	if w.plan.Chain == nil {
		return 0
	}
	return w.plan.Chain.Newest()
}

// judge adds the loss of the version that subscribers have, of the rows that the gate is about. A row of a class that the version does not
// have is left out; of several labels a row, a version with other labels judges nothing. numbers are those of the rows if the run predicts numbers; their losses are added apart, each in its own unit, as the version
// may have standardised them otherwise than the run does. A version of another task judges nothing.
func (p *surveyProcessor) judge(sum *accumulate.Sum, examples *schemas.Examples, rows accumulate.Rows, numbers []float64) {
	split, _ := p.gateSplit()
	m := p.offered.Model()
	if !slices.Contains(rows.Splits, split) || m.Task() != p.plan.Task() || numbers != nil && !slices.Equal(m.Labels(), p.plan.Targets) {
		return
	}
	if rows.Targets.Rows > 0 && !slices.Equal(m.Labels(), p.labels.Text()) { // losses of other labels don't compare
		return
	}
	n := examples.Rows
	truth := link.Truth{Classes: rows.Classes}
	if numbers != nil {
		truth.Targets, _ = standardized(m, numbers, len(p.plan.Targets))
	} else if rows.Targets.Rows > 0 {
		truth.Targets = rows.Targets
	} else {
		truth.Classes = make([]int32, n)
		examples.KnownClasses(truth.Classes, schemas.NewLabels(m.Labels()), func(string) {})
	}
	features(&p.x, examples, m.Width())
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	prediction := p.offered.Measure(p.x, truth, p.loss, p.predicted)
	offered := sum.Field(schemas.FieldOffered, p.offeredFields())
	for i, class := range truth.Classes {
		w := float64(rows.Weights[i])
		if class == schemas.Unlabelled || rows.Splits[i] != split || w == 0 {
			continue
		}
		offered[0] += w
		if numbers == nil {
			offered[1] += w * float64(p.loss[i])
			continue
		}
		for c, unit := range m.TargetScale() {
			e := float64(unit) * (float64(truth.Targets.Row(i)[c]) - float64(prediction.Row(i)[c]))
			offered[1+c] += w * e * e / 2
		}
	}
}

// offeredFields is how many sums judge makes: Σw, and Σw·loss, for numbers of each.
func (w *Worker) offeredFields() int { return 1 + max(len(w.plan.Targets), 1) }
