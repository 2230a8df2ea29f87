//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	links "github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// moment is how far a run is: the visit that is due. The survey is the moment (-1, 0). At the moment (t, 0) with t > 0 the
// workers first publish and seal the residuals of stage t − 1. After the last stage the version is finished. Of a chain, stage is the
// number of versions that are made, and visit counts the records of weights of the run that makes the next.
type moment struct{ stage, visit int }

func (m moment) before(other moment) bool {
	return cmp.Or(cmp.Compare(m.stage, other.stage), cmp.Compare(m.visit, other.visit)) < 0
}

func (m moment) String() string {
	if m.stage == wire.Survey {
		return "survey"
	}
	return fmt.Sprintf("stage %d visit %d", m.stage, m.visit)
}

// kind is a kind of fault.
type kind string

const (
	killWorker    kind = "kill a worker"
	killSolver    kind = "kill a solver"
	killSubmitter kind = "kill the submitter"
	killWorkers   kind = "kill all workers"
	killSolvers   kind = "kill all solvers"
	stopWorker    kind = "stop a worker"
	stopSolver    kind = "stop a solver"
	stopSubmitter kind = "stop the submitter"
	joinWorker    kind = "a worker joins"
	leaveWorker   kind = "a worker leaves"
	killBroker    kind = "kill a broker"
	killBrokers   kind = "kill two brokers"
	rollBrokers   kind = "restart the brokers in turn"
	resetBroker   kind = "reset connections"
	delayBroker   kind = "delay a broker"
	loseAnswers   kind = "lose answers"
)

// ofBrokers reports whether brokers go down.
func (k kind) ofBrokers() bool {
	return k == killBroker || k == killBrokers || k == rollBrokers || k == electBehind
}

// fault is one entry of a schedule.
type fault struct {
	kind   kind
	at     moment        // when it is injected
	after  time.Duration // the delay after that moment
	lasts  time.Duration // until it is repaired
	target int           // which process or broker, modulo their number
	amount int           // loseAnswers: how many; delayBroker: milliseconds
	again  bool          // killSubmitter: the repair repeats the command; otherwise it attaches to the run
}

func (f fault) String() string {
	return fmt.Sprintf("%s (target %d) at %s + %v for %v", f.kind, f.target, f.at, f.after, f.lasts)
}

// weighted is a kind of fault with its relative frequency and the range of its duration.
type weighted struct {
	kind     kind
	weight   int
	min, max time.Duration
	long     bool // one in longStops lasts longer than a session
}

// kinds returns all kinds of faults, so that each meets each phase of the protocol. Faults with a short recovery are more
// frequent.
func kinds() []weighted {
	const ms = time.Millisecond
	return []weighted{
		{killWorker, 4, 0, 1500 * ms, false},
		{killSolver, 4, 0, 1500 * ms, false},
		{killSubmitter, 2, 0, 1000 * ms, false},
		{killWorkers, 1, 0, 1000 * ms, false},
		{killSolvers, 1, 0, 1000 * ms, false},
		{stopWorker, 4, 100 * ms, 4000 * ms, true},
		{stopSolver, 4, 100 * ms, 4000 * ms, true},
		{stopSubmitter, 1, 100 * ms, 4000 * ms, false},
		{joinWorker, 2, 0, 0, false},
		{leaveWorker, 2, 0, 1500 * ms, false},
		{killBroker, 2, 500 * ms, 4000 * ms, false},
		{killBrokers, 1, 500 * ms, 4000 * ms, false},
		{rollBrokers, 1, 0, 500 * ms, false},
		{resetBroker, 4, 0, 0, false},
		{delayBroker, 3, 500 * ms, 3000 * ms, false},
		{loseAnswers, 4, 0, 0, false},
	}
}

// chainKinds returns the kinds of faults of a chain, whose submitters are the processes that retrain. They are killed and stopped as often
// as workers and solvers: when one is gone or loses its place, another goes on.
func chainKinds() []weighted {
	list := kinds()
	for i := range list {
		switch list[i].kind {
		case killSubmitter:
			list[i].weight = 4
		case stopSubmitter:
			list[i].weight, list[i].long = 4, true
		}
	}
	return list
}

const (
	minFaults, maxFaults = 5, 8
	// A process that is stopped for longer than its group's session of 10 s loses its partitions, and does not know it when it
	// resumes. One stop in longStops lasts from minLongStop to maxLongStop.
	longStops                = 4
	minLongStop, maxLongStop = 11 * time.Second, 14 * time.Second
	// maxAfter is about the duration of a visit, so that faults come anywhere within one.
	maxAfter = 60 * time.Millisecond
)

// schedule returns the faults of a run, in order. It is a function of the seed, the kinds of faults, and how many visits each stage has, or
// in a chain each version. At least minFaults come before the end of the last; some runs have one more while the
// version is finished. Brokers fail once in a schedule: while two are down, a write lacks the second of three replicas
// that it needs, and the controllers have no majority; if the third failed too, what was acknowledged could be lost.
func schedule(seed uint64, all []weighted, visits []int) []fault {
	draw := rand.New(rand.NewPCG(seed, 0))
	n := minFaults + draw.IntN(maxFaults-minFaults+1)
	var faults []fault
	for len(faults) < n {
		f := drawFault(draw, all)
		if f.kind.ofBrokers() && slices.ContainsFunc(faults, func(o fault) bool { return o.kind.ofBrokers() }) {
			continue
		}
		f.at = drawMoment(draw, visits)
		// Repeating the command would start another run if this one has ended meanwhile.
		f.again = f.again && f.at.stage <= 0
		faults = append(faults, f)
	}
	if f := drawFault(draw, all); draw.IntN(3) == 0 && !f.kind.ofBrokers() {
		f.at, f.again = moment{len(visits), 0}, false
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b fault) int {
		if a.at == b.at {
			return cmp.Compare(a.after, b.after)
		}
		if a.at.before(b.at) {
			return -1
		}
		return 1
	})
	return faults
}

// drawFault draws a fault without its moment.
func drawFault(draw *rand.Rand, all []weighted) fault {
	sum := 0
	for _, k := range all {
		sum += k.weight
	}
	at, i := draw.IntN(sum), 0
	for ; at >= all[i].weight; i++ {
		at -= all[i].weight
	}
	k := all[i]
	f := fault{
		kind: k.kind, after: between(draw, 0, maxAfter), lasts: between(draw, k.min, k.max), target: draw.IntN(1 << 16),
		amount: 1 + draw.IntN(4), again: draw.IntN(2) == 0,
	}
	switch {
	case k.long && draw.IntN(longStops) == 0:
		f.lasts = between(draw, minLongStop, maxLongStop)
	case k.kind == delayBroker:
		f.amount = 20 + draw.IntN(280)
	}
	return f
}

// drawMoment draws a stage and then one of its visits, so that short stages get as many faults as long ones.
func drawMoment(draw *rand.Rand, visits []int) moment {
	stage := wire.Survey + draw.IntN(len(visits)+1)
	if stage == wire.Survey {
		return moment{wire.Survey, 0}
	}
	return moment{stage, draw.IntN(visits[stage])}
}

// visitsOf returns the largest number of visits of each stage.
func visitsOf(stages []schemas.Stage) (list []int) {
	for _, s := range stages {
		list = append(list, visits(s))
	}
	return list
}

// visits returns the largest number of visits of a stage. If the stage ends sooner, the faults of its later visits come after it.
func visits(s schemas.Stage) int {
	l := links.Named(s.Link)
	if l.Quadratic {
		return 1
	}
	return l.VisitsPerPass() * s.Passes
}

// between draws a duration in [low, high], in whole milliseconds.
func between(draw *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(draw.Int64N(int64((high-low)/time.Millisecond)+1))*time.Millisecond
}

// injector injects the faults of a schedule into a run, and repairs each when its time is over.
type injector struct {
	cluster *cluster
	fleet   *fleet
	watch   *watch
	journal *journal
	front   role                   // the submitter, or in a chain a runner
	before  func()                 // called at the beginning; nil: nothing is
	submit  func(again bool) error // starts another of that role

	over    <-chan struct{} // closed when the run has ended; all repairs happen then
	repairs sync.WaitGroup
	mutex   sync.Mutex
	errs    []error
	done    map[kind]int // the faults injected
}

// run injects each fault at its moment, and returns when the run has ended and all faults are repaired.
func (i *injector) run(ctx context.Context, faults []fault) error {
	if i.before != nil {
		i.before()
	}
	for _, f := range faults {
		if !i.watch.await(ctx, f.at) {
			break
		}
		i.sleep(f.after)
		i.journal.note("%s", f)
		if i.inject(ctx, f) {
			i.done[f.kind]++
		} else {
			i.journal.note("%s: no target", f.kind)
		}
	}
	select {
	case <-i.over:
	case <-ctx.Done():
	}
	i.repairs.Wait()
	return errors.Join(i.errs...)
}

// inject injects one fault, and reports whether there was a target.
func (i *injector) inject(ctx context.Context, f fault) bool {
	switch f.kind {
	case killWorker, killSolver, killSubmitter:
		r := i.role(f.kind)
		p := i.fleet.take(r, f.target)
		if p == nil {
			return false
		}
		i.fleet.kill(p)
		i.later(f, func() error { return i.replace(r, 1, f.again) })
	case killWorkers, killSolvers:
		r := i.role(f.kind)
		all := i.fleet.all(r)
		i.fleet.kill(all...)
		i.later(f, func() error { return i.replace(r, len(all), false) })
		return len(all) > 0
	case stopWorker, stopSolver, stopSubmitter:
		p := i.fleet.take(i.role(f.kind), f.target)
		if p == nil {
			return false
		}
		p.hold()
		i.later(f, func() error {
			p.release()
			return nil
		})
	case joinWorker:
		i.check(i.fleet.start(worker))
	case leaveWorker:
		p := i.fleet.take(worker, f.target)
		if p == nil {
			return false
		}
		i.repairs.Go(func() { i.check(i.fleet.leave(p)) })
		i.later(f, func() error { return i.replace(worker, 1, false) })
	case killBroker:
		node := f.target % nodes
		if err := i.cluster.kill(ctx, node); err != nil {
			i.check(err)
			return false
		}
		// With ctx, so that an interrupted campaign does not wait for the broker.
		i.later(f, func() error { return i.cluster.revive(ctx, node) })
	case killBrokers:
		first, second := f.target%nodes, (f.target+1)%nodes
		if err := errors.Join(i.cluster.kill(ctx, first), i.cluster.kill(ctx, second)); err != nil {
			i.check(err)
			return false
		}
		i.later(f, func() error {
			return errors.Join(i.cluster.revive(ctx, first), i.cluster.revive(ctx, second))
		})
	case rollBrokers:
		i.later(f, func() error {
			for n := range nodes {
				node := (f.target + n) % nodes
				if err := errors.Join(i.cluster.kill(ctx, node), i.cluster.revive(ctx, node)); err != nil {
					return err
				}
			}
			return nil
		})
	case electBehind:
		return i.electBehind(ctx, f)
	case resetBroker:
		i.journal.note("%d connections are reset", i.cluster.proxies[f.target%nodes].Reset())
	case delayBroker:
		p := i.cluster.proxies[f.target%nodes]
		p.Delay(time.Duration(f.amount) * time.Millisecond)
		i.later(f, func() error {
			p.Delay(0)
			return nil
		})
	case loseAnswers:
		i.cluster.proxies[f.target%nodes].LoseAnswers(f.amount)
	default:
		panic(fmt.Sprintf("chaos: unknown kind of fault: %s", f.kind))
	}
	return true
}

// role returns the role that a kind of fault is for.
func (i *injector) role(k kind) role {
	switch k {
	case killSolver, killSolvers, stopSolver:
		return solver
	case killSubmitter, stopSubmitter:
		return i.front
	}
	return worker
}

// replace starts processes in the place of those that ended.
func (i *injector) replace(r role, count int, again bool) error {
	for range count {
		start := func() error { return i.fleet.start(r) }
		if r == i.front {
			start = func() error { return i.submit(again) }
		}
		if err := start(); err != nil {
			return err
		}
	}
	return nil
}

// later repairs a fault after its duration, or when the run has ended.
func (i *injector) later(f fault, repair func() error) {
	i.repairs.Go(func() {
		i.sleep(f.lasts)
		i.check(repair())
		i.journal.note("%s (target %d): repaired", f.kind, f.target)
	})
}

// sleep waits for a duration, or until the run has ended.
func (i *injector) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.over:
	}
}

// check keeps an error for run to return.
func (i *injector) check(err error) {
	if err == nil {
		return
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.errs = append(i.errs, err)
}

// watch follows a run on the topics, without the proxies, so that the injector knows when a moment has come.
type watch struct {
	plans *protocol.Plans
	known map[string]bool // runs before the watch

	mutex   sync.Mutex
	chain   bool         // follow every run of a chain, until ctx ends
	records int          // weights records since the last version of the chain
	run     string       // the run's id; "" until its plan is published. Of a chain that of the first
	due     moment       // how far the run is
	end     *schemas.End // nil: it goes on
	changed chan struct{}
}

// newWatch watches the next run of a pipeline. The caller calls follow.
func newWatch(ctx context.Context, log *kafkalog.Log, name string) (*watch, error) {
	client := protocol.NewClient(log, name, nil)
	_, end, err := log.Bounds(ctx, client.Topics.Weights, 0)
	if err != nil {
		return nil, err
	}
	plans, err := client.FollowPlans(ctx, nil, nil, protocol.Position{Topic: client.Topics.Weights, Offset: end, Compacted: true})
	if err != nil {
		return nil, err
	}
	w := &watch{plans: plans, known: map[string]bool{}, due: moment{wire.Survey - 1, 0}, changed: make(chan struct{})}
	for run := range plans.Runs() {
		w.known[run] = true
	}
	return w, nil
}

// follow returns nil when the run has ended, or an error when ctx has ended.
func (w *watch) follow(ctx context.Context) error {
	defer w.plans.Close()
	for w.state() == nil {
		d, _, err := w.plans.Await(ctx, protocol.MinPatience)
		if err == nil && d != nil {
			err = w.see(d.Message.Message)
		}
		if err != nil {
			return fmt.Errorf("follow the run: %w", err)
		}
	}
	return nil
}

// see takes a message of either topic into account. A record that is published again is no progress of a run; of a chain it may be.
func (w *watch) see(m wire.Message) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for run := range w.plans.Runs() {
		if w.run == "" && !w.known[run] {
			w.run = run
			w.move(moment{wire.Survey, 0})
		}
	}
	isRecord := m.Kind() == statistics.KindPrepare || m.Kind() == schemas.KindWeights
	made := w.plans.NextVersion() - 1
	switch {
	case w.run == "":
	case w.chain && made > w.due.stage && made > 0:
		w.records = 0
		w.move(moment{made, 0})
	case w.chain && isRecord:
		w.records++
		w.move(moment{made, w.records - 1})
	case isRecord && m.Run() == w.run:
		id, err := wire.IdentityOf(m)
		if err != nil {
			return err
		}
		if schemas.EndsStage(m) {
			w.move(moment{id.Stage + 1, 0})
		} else {
			w.move(moment{max(id.Stage, 0), id.Visit})
		}
	case !w.chain && w.plans.End(w.run) != nil:
		w.end = w.plans.End(w.run)
		w.change()
	}
	return nil
}

// move records how far the run is.
func (w *watch) move(due moment) {
	if w.due.before(due) {
		w.due = due
		w.change()
	}
}

func (w *watch) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits for a moment. It returns false if the run or ctx ends before.
func (w *watch) await(ctx context.Context, at moment) bool {
	for {
		w.mutex.Lock()
		come, ended, changed := !w.due.before(at), w.end != nil, w.changed
		w.mutex.Unlock()
		if ended || come {
			return !ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// state returns how the run ended, or nil while it is running.
func (w *watch) state() *schemas.End {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.end
}

// id returns the run's id, or "" before its plan is published.
func (w *watch) id() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.run
}

func (w *watch) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return fmt.Sprintf("run %q at %s", w.run, w.due)
}
