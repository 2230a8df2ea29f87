package worker

import (
	"context"
	"sync"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// sealBlock is a block of sealed partitions. Their residuals are written concurrently, so add is safe for concurrent use.
type sealBlock struct {
	*block
	of     *visit.Visit
	mutex  sync.Mutex
	states []*partition.State // by ordinal
	seals  []*statistics.Seal
}

// sealBlocks divides partitions into blocks sealed by one record; a single partition is not a block.
func (w *Worker) sealBlocks(v *visit.Visit, partitions []*partition.State) map[*partition.State]*sealBlock {
	all, of := map[*partition.State]*sealBlock{}, map[*block]*sealBlock{}
	for p, b := range w.blocks(v.Visit, partitions, 0) {
		if of[b] == nil {
			of[b] = &sealBlock{block: b, of: v, states: make([]*partition.State, len(b.at)), seals: make([]*statistics.Seal, len(b.at))}
		}
		of[b].states[b.at[p]], all[p] = p, of[b]
	}
	return all
}

// add adds the seal of a partition, and its sum. The last call publishes the block's seal.
func (b *sealBlock) add(ctx context.Context, p *partition.State, seal *statistics.Seal, sum *accumulate.Sum) error {
	whole, err := b.merge(b.at[p], seal, sum)
	if err != nil || whole == nil {
		return err
	}
	if b.plan.Chain != nil {
		visit.StackTerms(b.plan, b.of.Of, 0, whole, b.Crosses)
	}
	merged := statistics.MergedSeal(b.identity(statistics.KindSeal), whole.Coverage, whole.Tensors(), b.seals)
	return b.publishSeal(ctx, merged, b.states, b.seals)
}

// merge returns the sum of the block once it is complete; otherwise nil.
func (b *sealBlock) merge(at int, seal *statistics.Seal, sum *accumulate.Sum) (*accumulate.Sum, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	alone := *seal
	alone.Sums = nil
	b.seals[at] = &alone
	return b.rest.add(at, sum)
}
