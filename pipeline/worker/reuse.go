package worker

import (
	"slices"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// made returns what the run's batches depend on, beside their messages. The survey's result must be accepted.
func (w *Worker) made() partition.Made {
	type block struct {
		Features schemas.Features
		Scores   bool
	}
	blocks := make([]block, len(w.plan.Stages))
	for t, stage := range w.plan.Stages {
		blocks[t] = block{stage.Features, stage.Scores}
	}
	var weights []float64 // of increments
	if w.plan.Chain != nil {
		for i := range w.plan.Chain.Increments {
			weights = append(weights, w.plan.Chain.Increments[i].Weight)
		}
	}
	if !slices.ContainsFunc(weights, func(w float64) bool { return w != 1 }) {
		weights = nil
	}
	preparation := schemas.Record[float32]{Tensors: w.chain.Survey.Preparation}
	return partition.Made{
		Rows:   schemas.DigestJSON([]any{preparation.Digest(), w.plan.Prepare, w.plan.Holdout, w.plan.Seed, w.plan.Arithmetic, weights, w.plan.Forgotten}),
		Blocks: schemas.DigestJSON([]any{blocks, w.plan.Intercept}),
	}
}

// reuse gives partitions the batches that an earlier run has left.
func (w *Worker) reuse(partitions []*partition.State) {
	if w.store == nil {
		return
	}
	made := w.made()
	for _, p := range partitions {
		w.store.Return(p, made, w.plan.Chain != nil)
	}
}

// leave leaves the batches to the next run. A block of a stage with scores among its features is of this run alone.
func (w *Worker) leave() {
	if w.store == nil || w.chain.Survey == nil {
		return
	}
	made := w.made()
	for _, p := range w.partitions {
		w.store.Leave(p, made, func(stage int) bool { return !w.plan.Stages[stage].Scores })
	}
}
