package worker

import (
	"context"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
)

// Local makes the visits of an update that is too small to distribute, in the process of its solver. It is a worker of all
// partitions that returns its records instead of publishing them. Create one with [NewLocal]. It is not safe for concurrent use.
type Local struct {
	client *protocol.Client
	blas   *kernel.BLAS
	plan   *schemas.Plan
	option Options
	rec    event.Recorder
	worker *Worker // nil until Begin
	failed bool    // a visit has failed, so what was read may not match the log
}

// NewLocal returns the visits of a plan's run.
func NewLocal(client *protocol.Client, blas *kernel.BLAS, plan *schemas.Plan, o Options, rec event.Recorder) *Local {
	return &Local{client: client, blas: blas, plan: plan, option: o, rec: rec}
}

// Begin begins the visits, with the accepted records of a chain, which may grow between visits, and the version that the run
// starts from.
func (l *Local) Begin(chain *protocol.Chain, earlier *model.Model) {
	last := 0
	for _, number := range l.plan.Partitions() {
		last = max(last, number)
	}
	w := New(l.client, l.blas, l.plan, 0, protocol.NewSoleOwner(last+1), l.option, l.rec)
	w.chain, w.Earlier, w.Cache = chain, earlier, l.option.cache()
	l.worker, l.failed = w, false
	for i := range w.all {
		w.shares = append(w.shares, w.share(i))
	}
}

// Visit makes a visit, or sums the Gram matrices of its stage, and returns the records.
func (l *Local) Visit(ctx context.Context, v protocol.Visit, grams bool) (*protocol.Records, error) {
	w, began := l.worker, l.client.Clock.Now()
	w.records = &protocol.Records{}
	var err error
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
	return w.records, nil
}

// End ends the visits: it leaves the rows for the next run, and releases all other memory. Without a Begin it does nothing.
func (l *Local) End() {
	if l.worker == nil {
		return
	}
	if !l.failed {
		l.worker.leave()
	}
	for _, p := range l.worker.shares {
		p.Release(l.worker.Cache)
	}
	if l.failed {
		for _, number := range visit.Numbers(l.worker.shares) {
			l.worker.Cache.Drop(number)
		}
	}
	l.worker.Cache.Give(l.worker.reserved)
	l.worker = nil
}
