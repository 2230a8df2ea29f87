package worker

import (
	"slices"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// made returns the dependencies of the run's batches other than their messages. The survey's result must be accepted.
func (w *Worker) made() partition.Made {
	type block struct {
		Features          schemas.Features
		Scores, Intercept bool
		Structure         wire.Digest
	}
	blocks := make([]block, len(w.plan.Stages))
	for t, stage := range w.plan.Stages {
		blocks[t] = block{stage.Features, stage.Scores, w.plan.Intercept && w.plan.BeginsMember(t), w.chain.Trees(t)}
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
	preparation := wire.Record[float32]{Tensors: w.chain.Survey.Preparation}
	return partition.Made{
		Rows: wire.DigestJSON([]any{preparation.Digest(), w.plan.Prepare, w.plan.Holdout, w.plan.Seed, w.plan.Arithmetic, weights,
			w.plan.Forgotten, w.plan.Augment, w.plan.Members() > 1, w.plan.Fold}),
		Blocks: wire.DigestJSON(blocks),
	}
}

// reuse restores the batches of an earlier run to shares.
func (w *Worker) reuse(shares []*partition.Share) {
	made := w.made()
	for _, p := range shares {
		w.cache.Return(p, made, w.plan.Chain != nil)
	}
}

// leave stores the batches for the next run. The block of a stage with scores among its features is valid only in this
// run.
func (w *Worker) leave() {
	if w.chain.Survey == nil {
		return
	}
	made := w.made()
	for _, p := range w.shares {
		w.cache.Leave(p, made, func(stage int) bool { return !w.plan.Stages[stage].Scores })
	}
}
