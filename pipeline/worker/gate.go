package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
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
// have is left out.
func (p *surveyProcessor) judge(sum *accumulate.Sum, examples *schemas.Examples, rows accumulate.Rows) {
	split, _ := p.gateSplit()
	if !slices.Contains(rows.Splits, split) {
		return
	}
	n := examples.Rows
	classes := make([]int32, n)
	examples.KnownClasses(classes, schemas.NewLabels(p.offered.Model().Labels()), func(string) {})
	features(&p.x, examples, p.offered.Model().Width())
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	p.offered.Measure(p.x, classes, p.loss, p.predicted)
	offered := sum.Field(schemas.FieldOffered, 2)
	for i, class := range classes {
		if w := float64(rows.Weights[i]); class != schemas.Unlabelled && rows.Splits[i] == split && w > 0 {
			offered[0] += w
			offered[1] += w * float64(p.loss[i])
		}
	}
}
