package worker

import (
	"context"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Local makes the visits of an update that is too small to distribute, in the process of its solver. It is a worker of all
// partitions that returns its records instead of publishing them. Begin one with [NewLocal]. It is not safe for concurrent use.
type Local struct {
	worker *Worker
	failed bool // a visit has failed, so the rows in memory may not match the log
}

// NewLocal begins the visits of a plan's run, with the accepted records of a chain, which may grow between visits, and the version
// that the run starts from.
func NewLocal(client *protocol.Client, blas *kernel.BLAS, plan *schemas.Plan, chain *protocol.Chain, earlier *model.Model, o Options,
	rec event.Recorder) *Local {
	last := 0
	for _, number := range plan.Partitions() {
		last = max(last, number)
	}
	w := New(client, blas, plan, protocol.NewSoleOwner(last+1), o, rec)
	w.chain, w.Earlier, w.Cache = chain, earlier, o.cache()
	for i := range w.all {
		w.shares = append(w.shares, w.share(i))
	}
	return &Local{worker: w}
}

// Visit makes a visit, or sums the Gram matrices of its stage, and returns the records.
func (l *Local) Visit(ctx context.Context, v protocol.Visit, grams bool) (records []*wire.Record[float64], err error) {
	w, began := l.worker, l.worker.Clock.Now()
	w.records = &records
	if grams {
		if err = w.reserve(v); err == nil {
			err = w.withScores(ctx, v.Stage, w.shares, func() error { return w.sumGrams(ctx, v, w.shares) })
		}
	} else if err = w.visit(ctx, v, w.shares); err == nil {
		w.visited(v, w.shares, began)
	}
	if err != nil {
		l.failed = ctx.Err() == nil
		return nil, err
	}
	return records, nil
}

// End ends the visits: it leaves the rows for the next run, and releases all other memory.
func (l *Local) End() {
	w := l.worker
	if !l.failed {
		w.leave()
	}
	w.release()
	if l.failed {
		for _, number := range visit.Numbers(w.shares) {
			w.Cache.Drop(number)
		}
	}
}
