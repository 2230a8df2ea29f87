package worker

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
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
	if w.store == nil {
		return
	}
	made := w.made()
	for _, p := range shares {
		w.store.Return(p, made, w.plan.Chain != nil)
	}
}

// leave stores the batches for the next run. The block of a stage with scores among its features is valid only in this
// run.
func (w *Worker) leave() {
	if w.store == nil || w.chain.Survey == nil {
		return
	}
	made := w.made()
	for _, p := range w.shares {
		w.store.Leave(p, made, func(stage int) bool { return !w.plan.Stages[stage].Scores })
	}
}

// gramKey returns the key of a share's Gram matrix in the store; false if it can't be shared. That of a stage with
// scores among its features, or with trees, depends on the weights of earlier stages, and that of a chain is a sum over
// increments.
func (w *Worker) gramKey(v *visit.Visit, p *partition.Share) (partition.GramKey, bool) {
	if !w.store.Shares() || w.plan.Chain != nil || v.Of.Features.Leaves() > 0 ||
		w.plan.Stages[v.Stage].Scores {
		return partition.GramKey{}, false
	}
	type sample struct{ Want, Total int64 }
	var of *sample // all rows
	if v.Sample != nil {
		of = &sample{v.Sample.Want, v.Sample.Total}
	}
	depends := []any{w.made().Rows, p.Covered(), p.Parts()[0].Ordinal, w.plan.Segment, v.Stage, w.plan.Stages[v.Stage].Features,
		w.plan.Intercept && w.plan.BeginsMember(v.Stage), of}
	return partition.GramKey{Share: w.first(p), Of: wire.DigestJSON(depends)}, true
}

// publishKnownGrams publishes the Gram matrices that an earlier run has summed, and reports whether it has those of all
// shares. If one is missing, it publishes none.
func (w *Worker) publishKnownGrams(ctx context.Context, v *visit.Visit, shares []*partition.Share) (bool, error) {
	records := make([]*wire.Record[float32], len(shares))
	for i, p := range shares {
		key, ok := w.gramKey(v, p)
		if !ok {
			return false, nil
		}
		earlier := w.store.Gram(key)
		if earlier == nil {
			return false, nil
		}
		records[i] = &wire.Record[float32]{Identity: w.identity(statistics.KindGram, v.Visit, p), Notes: earlier.Notes, Tensors: earlier.Tensors}
	}
	for _, record := range records {
		if err := publish(ctx, w, record); err != nil {
			return false, err
		}
	}
	return true, nil
}
