// Package worker is the role that makes visits:
//
//	examples, residuals ──ingest, stages, sink, accumulate──▶ statistics, residuals and their seals
//
// The next step of a worker is determined by the plan and the accepted weights: for the due visit, it publishes the sums
// of its partitions. Any worker would publish the same bits, so workers may join, leave, and duplicate work.
package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Worker makes the visits of one run to its partitions. Create workers with [New]. A worker is not safe for concurrent
// use.
type Worker struct {
	*visit.Run
	rec      event.Recorder
	owner    protocol.Owner
	chain    *protocol.Chain
	plans    *protocol.Plans // followed with the weights topic
	all      []schemas.Share // of the plan
	shares   []*visit.Share  // owned shares, in the plan's order
	seals    *seals
	measured bool  // the memory of the matrices is known
	reserved int64 // bytes of the cache reserved for them
	executor visit.Executor
	options  Options
	mutex    sync.Mutex               // guards records and written
	records  *[]*wire.Record[float64] // of a visit whose records are not sent; nil: records are published
	written  map[wire.Identity]int64  // the records that a solver may still be waiting for: lowest offset of their messages
}

// Options are the resources of a worker.
type Options struct {
	// Cache is the worker's memory, with the data of earlier runs of the pipeline. Nil means that nothing stays in memory.
	Cache *visit.Cache
	// Executor schedules the worker's goroutines; nil: [visit.Concurrent].
	Executor visit.Executor
	// Solves means that the process is also the run's solver, whose memory is reserved with that of the worker.
	Solves bool
}

// New returns a worker of an unfinished run. owner tells which examples partitions the worker owns.
func New(client *protocol.Client, blas *kernel.BLAS, plan *schemas.Plan, owner protocol.Owner, o Options, rec event.Recorder) *Worker {
	if o.Cache == nil {
		o.Cache = visit.NewRunCache(0)
	}
	chain, cache := protocol.NewChain(plan, client.Memory, rec), o.Cache
	if o.Executor == nil {
		o.Executor = visit.Concurrent{}
	}
	if plan.Update().IsLocal() {
		cache = visit.NewRunCache(0) // the solver's visits use the other cache
	}
	return &Worker{
		Run: visit.NewRun(client, blas, plan, chain.Run, cache), rec: rec, owner: owner, chain: chain,
		executor: o.Executor, options: o, all: plan.Shares(plan.Partitions()), written: map[wire.Identity]int64{},
		seals: &seals{},
	}
}

// Work makes visits until the run or ctx ends, and then releases all memory except the store. The error is that of ctx or
// of the brokers, a *[protocol.MembershipError], or a *[StoppedError] if the worker can't make the due visit.
func (w *Worker) Work(ctx context.Context) error {
	for {
		if err := w.work(ctx); !errors.Is(err, errDiffers) {
			return err
		}
		*w = *New(w.Client, w.BLAS, w.Plan, w.owner, w.options, w.rec)
	}
}

// errDiffers means that the weights topic has other accepted weights than this worker, which then restarts from the topic.
var errDiffers = errors.New("the weights topic has other accepted weights")

// errEnded means that the run has ended, or that another run goes first.
var errEnded = errors.New("the run has ended")

func (w *Worker) work(ctx context.Context) error {
	defer w.release()
	err := w.visits(ctx)
	if err == nil || ctx.Err() != nil {
		w.leave()
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, new(*protocol.MembershipError)):
		return err // other workers have its partitions
	case errors.Is(err, errDiffers):
		return err
	case errors.As(err, new(*kafkalog.AccessError)), errors.Is(err, kafkalog.ErrClosed):
		return err // it concerns this process, not the log
	}
	failure := &schemas.Failure{Run: w.ID, Parent: w.chain.Head(), Reason: err.Error(), Partitions: w.owned()}
	failure.Expired = errors.As(err, new(*protocol.ExpiredError))
	if lost, ok := errors.AsType[*protocol.IncompleteSourceError](err); ok {
		failure.Source = schemas.SourceName(lost.Source, lost.Attempt)
	}
	for _, number := range visit.Numbers(w.shares) {
		w.Cache.Drop(number) // the stored data may be the cause: it may not match the log
	}
	return &StoppedError{Err: err, worker: w, failure: failure}
}

// release releases the memory of the worker.
func (w *Worker) release() {
	for _, p := range w.shares {
		p.Release(w.Cache)
	}
	w.Cache.Give(w.reserved)
}

// StoppedError means that a worker can't make the due visit. The role then leaves its partitions to other workers, which
// may have the data in memory that this one can't read, and calls Report.
type StoppedError struct {
	Err     error
	worker  *Worker
	failure *schemas.Failure
}

// Error includes the reason.
func (e *StoppedError) Error() string {
	return fmt.Sprintf("run %s can't continue here: %v", e.failure.Run, e.Err)
}

// Unwrap returns Err.
func (e *StoppedError) Unwrap() error { return e.Err }

// Report writes the reason to the statistics topic, repeatedly, because brokers may lose a message. If no other worker
// makes the visit within the solver's patience, the run fails. Report returns nil when the run has ended, or another visit
// is due: an outdated worker may then be able to continue. A worker without partitions reports nothing, because its
// problem affects no other process, and Report returns nil after a while: the worker may be needed.
func (e *StoppedError) Report(ctx context.Context) error {
	w := e.worker
	next, err := w.chain.Read(ctx, w.Client)
	if errors.As(err, new(*protocol.ExpiredError)) {
		err = nil
	}
	if err != nil || w.chain.Head() != e.failure.Parent {
		return err
	}
	if w.plans, err = w.follow(ctx, nil, next); err != nil {
		return err
	}
	defer w.plans.Close()
	for wait := protocol.MinPatience; ; wait = protocol.Patience(wait) {
		if len(e.failure.Partitions) > 0 {
			if _, err := w.Log.Append(ctx, w.Topics.Statistics, w.statisticsOf(e.failure.Partitions[0]), e.failure.Message()); err != nil {
				return fmt.Errorf("report that %s: %w", e.failure.Reason, err)
			}
		}
		_, err := w.await(ctx, wait)
		switch {
		case errors.As(err, new(*protocol.ExpiredError)):
			err = nil
		case errors.Is(err, errEnded), errors.Is(err, errDiffers):
			return nil
		}
		if err != nil || w.chain.Head() != e.failure.Parent || len(e.failure.Partitions) == 0 {
			return err
		}
	}
}

// follow follows the plans topic, and the weights topic from an offset.
func (w *Worker) follow(ctx context.Context, wake <-chan struct{}, weights int64) (*protocol.Plans, error) {
	return w.FollowPlans(ctx, nil, wake, protocol.Position{Topic: w.Topics.Weights, Offset: weights, Compacted: true})
}

// visits makes all due visits, until the run has ended.
func (w *Worker) visits(ctx context.Context) (err error) {
	next, err := w.chain.Read(ctx, w.Client) // first, because a failure names the due visit
	if err != nil {
		return err
	}
	if w.Earlier, err = w.chain.Warm(ctx, w.Client); err != nil {
		return fmt.Errorf("warm start: %w", err)
	}
	if w.plans, err = w.follow(ctx, w.owner.Changed(), next); err != nil {
		return err
	}
	defer w.plans.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for wait := protocol.MinPatience; ; {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
		switch late, err := w.await(ctx, wait); {
		case errors.Is(err, errEnded):
			return nil
		case err != nil:
			return err
		case late:
			if err := w.repeat(ctx); err != nil {
				return err
			}
			wait = protocol.Patience(wait)
		default:
			wait = protocol.MinPatience
		}
	}
}

// await waits for an event that may change what is due: the worker may own other partitions, or the chain has grown. late means that there
// was none until timeout, also not on the log. The error may be errEnded or errDiffers.
func (w *Worker) await(ctx context.Context, timeout time.Duration) (late bool, err error) {
	for deadline := w.Clock.Now().Add(timeout); w.plans.End(w.ID) == nil; {
		d, late, err := w.plans.Deliver(ctx, w.Clock.Until(deadline))
		switch {
		case late && err == nil:
			return w.isUnchanged(ctx)
		case err != nil || d == nil:
			return false, err
		case d.Topic == w.Topics.Weights:
			if grown, err := w.chain.Follow(d.Message); err != nil || grown {
				return false, err
			}
		}
	}
	return false, errEnded
}

// isUnchanged reports whether nothing has changed on the log without an event. The error is as in await.
func (w *Worker) isUnchanged(ctx context.Context) (bool, error) {
	current, err := w.plans.IsCurrent(ctx, w.ID, w.Plan.Since)
	if err == nil && !current {
		err = errEnded
	}
	if err != nil {
		return false, err
	}
	head := w.chain.Head()
	differs, err := w.chain.RenewUnread(ctx, w.Client)
	if err == nil && differs {
		err = errDiffers
	}
	return w.chain.Head() == head, err
}

// catchUp does everything that is due for the worker's shares.
func (w *Worker) catchUp(ctx context.Context) error {
	if err := w.adopt(ctx); err != nil {
		return err
	}
	v, seal := w.chain.Due()
	w.chain.Forget(v)
	maps.DeleteFunc(w.written, func(id wire.Identity, _ int64) bool { return !w.isAwaited(id, v, seal) })
	if seal != protocol.NoStage && w.Plan.Update() == nil {
		if err := w.sealStage(ctx, seal); err != nil {
			return fmt.Errorf("publish the residuals of stage %d: %w", seal, err)
		}
	}
	if v.Stage == len(w.Plan.Stages) {
		if w.Plan.Update() != nil {
			w.commit(w.shares)
		}
		return nil
	}
	if w.Plan.Update().IsLocal() {
		return nil // the solver makes the visits
	}
	var due []*visit.Share
	for _, p := range w.shares {
		if p.Visited != v {
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return nil
	}
	began := w.Clock.Now()
	if err := w.visit(ctx, v, due); err != nil {
		return fmt.Errorf("visit %d of %s: %w", v.Number, event.StageName(v.Stage), err)
	}
	for _, p := range due {
		p.Visited = v
	}
	w.visited(v, due, began)
	return nil
}

// visited records that a visit is complete.
func (w *Worker) visited(v protocol.Visit, shares []*visit.Share, began time.Time) {
	w.rec.Record(event.Visited{
		Run: w.ID, Stage: v.Stage, Visit: v.Number, Partitions: visit.Numbers(shares), Rows: rows(shares),
		Elapsed: w.Clock.Since(began),
	})
}

// visit makes one visit to shares, and publishes the statistics of each share as soon as they are complete.
func (w *Worker) visit(ctx context.Context, v protocol.Visit, shares []*visit.Share) error {
	if v.Stage == wire.Survey {
		shares := slices.DeleteFunc(slices.Clone(shares), func(p *visit.Share) bool { return p.Recent == 0 })
		if len(shares) == 0 {
			return nil
		}
		return w.survey(ctx, v, shares)
	}
	if err := w.reserve(); err != nil {
		return err
	}
	return w.withScores(ctx, v.Stage, shares, func() error { return w.sum(ctx, v, shares) })
}

// adopt takes over newly owned shares, and releases those no longer owned.
func (w *Worker) adopt(ctx context.Context) error {
	if err := protocol.CheckMembership(w.owner); err != nil {
		return err
	}
	held := map[int]*visit.Share{}
	for _, p := range w.shares {
		held[w.first(p)] = p
	}
	var shares, adopted []*visit.Share
	owned := w.owner.Owned()
	for i, share := range w.all {
		if _, mine := slices.BinarySearch(owned, share.First); !mine {
			continue
		}
		p := held[share.First]
		if p == nil {
			p = w.share(i)
			adopted = append(adopted, p)
		}
		delete(held, share.First)
		shares = append(shares, p)
	}
	for _, p := range held {
		p.Release(w.Cache)
	}
	w.shares = shares
	w.Cache.Retain(visit.Numbers(shares))
	if len(adopted) == 0 && len(held) == 0 {
		return nil
	}
	w.rec.Record(event.Owned{Run: w.ID, Partitions: visit.Numbers(shares)})
	return w.findSeals(ctx, adopted)
}

// first returns the first partition that a share may have, which identifies it.
func (w *Worker) first(p *visit.Share) int { return w.Plan.ShareOf(p.Parts[0].Span.Partition) }

// share returns the empty state of a share, by its index in the plan.
func (w *Worker) share(index int) *visit.Share {
	ordinal := 0
	for _, earlier := range w.all[:index] {
		ordinal += len(earlier.Partitions)
	}
	var parts []*visit.Part
	for i, number := range w.all[index].Partitions {
		span := coverage.Span{Partition: number} // empty, if an update has no new rows in the partition
		spans, increments := w.Plan.Spans.On(number), []coverage.Increment(nil)
		if len(spans) > 0 {
			span = spans.Hulls()[0]
		}
		if len(spans) > 1 { // of sources that were sealed late
			increments = []coverage.Increment{{Covered: []coverage.Coverage{{Spans: spans}}}}
		}
		if w.Plan.Chain != nil && len(w.Plan.Chain.Increments) > 0 {
			increments = w.Plan.Chain.Increments
		}
		parts = append(parts, &visit.Part{Span: span, Ordinal: ordinal + i, Increments: increments})
	}
	p := visit.NewShare(w.Plan.Segment, parts...)
	if u := w.Plan.Update(); u != nil {
		for i := range u.Refresh {
			p.AddPast(&u.Refresh[i], i+1, false, w.Plan.Segment)
		}
		if u.Restart || u.Sparse {
			return p // no sums are kept from which rows could leave
		}
		for i, c := range u.Leave {
			p.AddPast(&c, i, true, w.Plan.Segment)
		}
	}
	return p
}

// owned returns the first partitions of the shares of the run that the worker owns now.
func (w *Worker) owned() (numbers []int) {
	owned := w.owner.Owned()
	for _, share := range w.all {
		if _, mine := slices.BinarySearch(owned, share.First); mine {
			numbers = append(numbers, share.First)
		}
	}
	return numbers
}

// identity returns the identity of a share's record for a visit.
func (w *Worker) identity(kind wire.Kind, v protocol.Visit, p *visit.Share) wire.Identity {
	return wire.Identity{Kind: kind, Run: w.ID, Stage: v.Stage, Visit: v.Number, Partition: w.first(p), Parent: v.Parent}
}

// statisticsOf returns the statistics partition for the records of a share, given its first partition.
func (w *Worker) statisticsOf(first int) int {
	return first / max(w.Plan.Group, 1) % max(len(w.Plan.Since.Statistics), 1)
}

// publish writes a record of a share's statistics, or adds it to the records of a visit whose records are not sent.
func publish[T wire.Number](ctx context.Context, w *Worker, r *wire.Record[T]) error {
	if w.records != nil {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		double, is := any(r).(*wire.Record[float64])
		if !is {
			double = wire.Widened(any(r).(*wire.Record[float32]))
		}
		*w.records = append(*w.records, double)
		return nil
	}
	written, err := protocol.WriteRecord(ctx, w.Client, w.Topics.Statistics, w.statisticsOf(r.Partition), r)
	if err == nil {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.written[r.Identity] = written
	}
	return err
}

// progress returns a function that adds rows to those read in a visit, and records the progress of the visit.
func (w *Worker) progress(v protocol.Visit, shares []*visit.Share) func(rows int64) {
	done, of := int64(0), rows(shares)
	if v.Stage == wire.Survey && !w.Plan.Foreign && len(shares) == len(w.all) {
		for _, s := range w.Plan.Sources {
			of += s.Rows
		}
	}
	return func(rows int64) {
		done += rows
		w.rec.Record(event.Progressed{Stage: v.Stage, Visit: v.Number, Rows: done, Of: of})
	}
}

// rows returns the number of rows that the survey has found in shares.
func rows(shares []*visit.Share) (n int64) {
	for _, p := range shares {
		n += p.Covered.Rows
	}
	return n
}

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
	w.chain, w.Earlier, w.Cache = chain, earlier, w.options.Cache
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
		if err = w.reserve(); err == nil {
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
