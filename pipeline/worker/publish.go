package worker

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
)

// sealStage publishes and seals the residuals after a final stage, for the partitions whose residuals are not sealed yet.
func (w *Worker) sealStage(ctx context.Context, stage int) error {
	_, parent := w.chain.Final(stage)
	var open []*partition.State
	for _, p := range w.partitions {
		if seal := w.seals.of(p.Partition(), stage); seal == nil || seal.Parent != parent {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return nil
	}
	began := w.Clock.Now()
	if err := w.withScores(ctx, stage, open, func() error { return w.publishStage(ctx, stage, open) }); err != nil {
		return err
	}
	w.rec.Record(event.Sealed{Run: w.run, Stage: stage, Partitions: partition.Numbers(open), Rows: rows(open), Elapsed: w.Clock.Since(began)})
	if stage == len(w.plan.Stages)-1 {
		w.commit(open)
	}
	return nil
}

// commit commits the offsets that the partitions had at the start of the run, so that monitoring tools show the lag of
// training. A failure does not affect the run.
func (w *Worker) commit(partitions []*partition.State) {
	ends := map[int]int64{}
	for _, p := range partitions {
		if !p.Span().Empty() {
			ends[p.Partition()] = p.Span().To
		}
	}
	w.owner.Commit(ends, func(err error) {
		if err != nil {
			event.Notice(w.rec, "the offsets that run %s has reached are not committed, so tools show too large a lag: %v", w.run, err)
		}
	})
}

const (
	// maxPublications is the maximum number of partitions whose residuals are written concurrently: each write waits for the
	// brokers.
	maxPublications = 8
	// maxPublicationBytes is the maximum memory in bytes for the scores of their segments, unless there is only one.
	maxPublicationBytes = 256 << 20
)

// publishStage publishes the residuals after a stage for partitions whose scores before it are loaded. It seals those of a
// partition when the brokers have acknowledged all of them.
func (w *Worker) publishStage(ctx context.Context, stage int, partitions []*partition.State) error {
	current, err := w.stageVisit(ctx, protocol.Visit{Stage: stage})
	if err != nil {
		return err
	}
	_, current.Parent = w.chain.Final(stage)
	for _, p := range partitions {
		p.BeginPublication()
	}
	attempt := w.Fresh()
	blocks := w.sealBlocks(current, partitions)
	sums, open, terms := map[*partition.State]*accumulate.Sum{}, map[*partition.State]*openSeal{}, w.termsOf(current, partitions, blocks)
	s := &visit.Scan[*visit.Outcome]{
		LoadSource: &visit.LoadSource{Client: w.Client, Store: w.store, Counting: w.counting, Scores: w.scoresBefore(stage)},
		MaxWrites:  w.publications(), InOrder: true, // residuals are in the order of their examples
		Process: func() func(context.Context, *visit.Load) (*visit.Outcome, error) {
			p := w.idle.Take(current)
			return func(ctx context.Context, l *visit.Load) (*visit.Outcome, error) { return p.Residuals(ctx, l, attempt) }
		},
		Collect: func(at visit.LoadPlace, o *visit.Outcome) (visit.Write, error) {
			p := at.Partition
			if open[p] == nil {
				open[p] = &openSeal{Seal: statistics.Seal{Identity: w.identity(statistics.KindSeal, current.Visit, p), Attempt: attempt, From: -1}}
			}
			seal := open[p]
			whole, err := merge(sums, at, o.Sum, p.All(), w.Grams, w.Crosses)
			if err != nil {
				return nil, err
			}
			var writeTerms visit.Write
			if o.Terms != nil {
				if writeTerms, err = terms.add(at, o.Terms); err != nil {
					return nil, err
				}
			}
			return func(ctx context.Context) error {
				if err := w.writeResiduals(ctx, seal, o); err != nil {
					return err
				}
				if writeTerms != nil {
					if err := writeTerms(ctx); err != nil {
						return err
					}
				}
				if whole == nil {
					return nil
				}
				return w.seal(ctx, current, p, seal, whole, blocks[p])
			}, nil
		},
	}
	return s.Run(ctx, w.executor, partitions)
}

// openSeal is the seal of residuals that are still being written.
type openSeal struct {
	statistics.Seal
	digester sink.Digester
}

// writeResiduals writes the residuals of a segment, and adds them to the seal.
func (w *Worker) writeResiduals(ctx context.Context, seal *openSeal, o *visit.Outcome) error {
	offset, err := w.Log.Append(ctx, w.Topics.Residuals, seal.Partition, o.Messages...)
	if err != nil {
		return err
	}
	if seal.From < 0 {
		seal.From = offset
	}
	for _, part := range o.Scores {
		seal.digester.Add(part.Offset, part.Row, part.Score, part.Votes)
	}
	seal.Rows += o.Rows
	return nil
}

// seal publishes the seal of a partition's residuals, all of which are acknowledged, or that of its block once it is
// complete. sum covers the partition.
func (w *Worker) seal(ctx context.Context, v *visit.Visit, p *partition.State, open *openSeal, sum *accumulate.Sum, of *sealBlock) error {
	seal := open.Seal
	seal.Scores = open.digester.Digest()
	if w.plan.Chain != nil && of == nil { // otherwise those of the block are stacked
		visit.StackTerms(w.plan, v.Of, 0, sum, w.Crosses)
	}
	seal.Covered, seal.Sums = sum.Coverage, sum.Tensors()
	_, end, err := w.Log.Bounds(ctx, w.Topics.Residuals, seal.Partition)
	if err != nil {
		return err
	}
	if seal.From < 0 { // without rows there are no residuals that could expire
		seal.From = end
	}
	seal.To = end
	if of != nil {
		return of.add(ctx, p, &seal, sum)
	}
	return w.publishSeal(ctx, &seal, []*partition.State{p}, []*statistics.Seal{&seal})
}

// publishSeal publishes the seal of partitions. each has the seal of each partition.
func (w *Worker) publishSeal(ctx context.Context, seal *statistics.Seal, partitions []*partition.State, each []*statistics.Seal) error {
	if err := publish(ctx, w, seal.Record()); err != nil {
		return err
	}
	for i, p := range partitions {
		w.seals.add(each[i])
		if !visit.EndsMember(w.plan, seal.Stage) { // the next member starts from other scores, and from the published votes
			p.Published(seal.Stage)
		}
	}
	return nil
}
