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

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// kind is a kind of fault.
type kind string

// The kinds of faults that schedules and circumstances name.
const (
	killFront   kind = "kill the front"
	stopFront   kind = "stop the front"
	killBroker  kind = "kill a broker"
	killBrokers kind = "kill two brokers"
	rollBrokers kind = "restart the brokers in turn"
	delayBroker kind = "delay a broker"
	electBehind kind = "elect a lagging leader" // only of chains, by their circumstances
)

// ofBrokers reports whether brokers go down.
func (k kind) ofBrokers() bool {
	return k == killBroker || k == killBrokers || k == rollBrokers || k == electBehind
}

// fault is one entry of a schedule.
type fault struct {
	kind   kind
	at     int           // the number of records of weights after which it is injected; 0: once the run is planned
	after  time.Duration // the delay after that
	lasts  time.Duration // until it is repaired
	target int           // which process or broker, modulo their number
	amount int           // number of answers to lose; delayBroker: milliseconds
	again  bool          // killFront: the repair repeats the command; otherwise it attaches to the run
}

func (f fault) String() string {
	return fmt.Sprintf("%s (target %d) after %d records + %v for %v", f.kind, f.target, f.at, f.after, f.lasts)
}

// weighted is a kind of fault with its relative frequency and the range of its duration.
type weighted struct {
	kind     kind
	weight   int // 0: only the circumstances of a chain have it
	min, max time.Duration
	long     bool // one in longStops lasts longer than a session
	inject   injection
}

// injection injects a fault, and returns the function that repairs it; nil: no repair is necessary. The error is
// errNoTarget if there is no target for the fault.
type injection func(ctx context.Context, i *injector, f fault) (repair func() error, err error)

var errNoTarget = errors.New("no target")

// kinds returns all kinds of faults, so that each meets each phase of the protocol. Faults with a short recovery are more
// frequent.
func kinds() []weighted {
	const ms = time.Millisecond
	return []weighted{
		{"kill a worker", 4, 0, 1500 * ms, false, one(worker, kill)},
		{"kill a solver", 4, 0, 1500 * ms, false, one(solver, kill)},
		{killFront, 4, 0, 1000 * ms, false, one(front, kill)},
		{"kill all workers", 1, 0, 1000 * ms, false, killAll(worker)},
		{"kill all solvers", 1, 0, 1000 * ms, false, killAll(solver)},
		{"stop a worker", 4, 100 * ms, 4000 * ms, true, one(worker, stop)},
		{"stop a solver", 4, 100 * ms, 4000 * ms, true, one(solver, stop)},
		{stopFront, 4, 100 * ms, 4000 * ms, true, one(front, stop)},
		{"a worker joins", 2, 0, 0, false, func(_ context.Context, i *injector, _ fault) (func() error, error) {
			return nil, i.fleet.start(worker)
		}},
		{"a worker leaves", 2, 0, 1500 * ms, false, one(worker, leave)},
		{killBroker, 2, 500 * ms, 4000 * ms, false, killNodes(1)},
		{killBrokers, 1, 500 * ms, 4000 * ms, false, killNodes(2)},
		{rollBrokers, 1, 0, 500 * ms, false, roll},
		{"reset connections", 4, 0, 0, false, func(_ context.Context, i *injector, f fault) (func() error, error) {
			i.journal.Printf("%d connections are reset", i.cluster.proxies[f.target%nodes].Reset())
			return nil, nil
		}},
		{delayBroker, 3, 500 * ms, 3000 * ms, false, delay},
		{"lose answers", 4, 0, 0, false, func(_ context.Context, i *injector, f fault) (func() error, error) {
			i.cluster.proxies[f.target%nodes].LoseAnswers(f.amount)
			return nil, nil
		}},
		{electBehind, 0, minBehind, maxBehind, false, electLagging},
	}
}

const (
	minFaults, maxFaults = 5, 8
	// A process that is stopped for longer than its group's session of 10 s loses its partitions, and resumes as if it
	// still owned them. One stop in longStops lasts from minLongStop to maxLongStop.
	longStops                = 4
	minLongStop, maxLongStop = 11 * time.Second, 14 * time.Second
	// maxAfter is about the duration of a visit, so that faults come anywhere within one.
	maxAfter = 60 * time.Millisecond
)

// schedule returns the faults of a run, in order. It is a function of the seed and of the number of records of weights that the run
// writes. At least minFaults come before the last record; some runs have one more while the version is finished. Brokers fail once in a
// schedule: while two are down, a write lacks the second of three replicas that it needs, and the controllers have no majority; if the
// third failed too, what was acknowledged could be lost.
func schedule(seed uint64, records int) []fault {
	draw := rand.New(rand.NewPCG(seed, 0))
	n := minFaults + draw.IntN(maxFaults-minFaults+1)
	var faults []fault
	for len(faults) < n {
		f := drawFault(draw)
		if f.kind.ofBrokers() && slices.ContainsFunc(faults, func(o fault) bool { return o.kind.ofBrokers() }) {
			continue
		}
		if f.at = draw.IntN(records); draw.IntN(8) == 0 {
			f.at = 0 // the survey is long, and has one record
		}
		// Repeating the command would start another run if this one has ended.
		f.again = f.again && f.at <= records/4
		faults = append(faults, f)
	}
	if f := drawFault(draw); draw.IntN(3) == 0 && !f.kind.ofBrokers() {
		f.at, f.again = records, false
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.after, b.after)) })
	return faults
}

// drawFault draws a fault, except for the number of records before it.
func drawFault(draw *rand.Rand) fault {
	all, sum := kinds(), 0
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

// between draws a duration in [low, high], in whole milliseconds.
func between(draw *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(draw.Int64N(int64((high-low)/time.Millisecond)+1))*time.Millisecond
}

// injector injects the faults of a schedule into a run, and repairs each when its time is over.
type injector struct {
	*campaign
	watch  *watch
	submit func(again bool) error // starts another process of the front

	over    <-chan struct{} // closed when the run has ended; all repairs happen then
	repairs errgroup.Group
	done    map[kind]int // the faults injected
}

// inject injects each fault at its moment, and returns when the run has ended and all faults are repaired.
func (i *injector) inject(ctx context.Context, faults []fault) error {
	all := kinds()
	for _, f := range faults {
		if !i.watch.await(ctx, f.at) {
			break
		}
		i.sleep(f.after)
		i.journal.Printf("%s", f)
		inject := all[slices.IndexFunc(all, func(k weighted) bool { return k.kind == f.kind })].inject
		switch repair, err := inject(ctx, i, f); {
		case errors.Is(err, errNoTarget):
			i.journal.Printf("%s: %v", f.kind, err)
		case err != nil:
			i.repairs.Go(func() error { return err })
		default:
			i.done[f.kind]++
			if repair != nil {
				i.later(f, repair)
			}
		}
	}
	select {
	case <-i.over:
	case <-ctx.Done():
	}
	return i.repairs.Wait()
}

// one injects a fault into a process of a role that is not held.
func one(r role, inject func(i *injector, f fault, p *process) (repair func() error)) injection {
	return func(_ context.Context, i *injector, f fault) (func() error, error) {
		p := i.fleet.take(r, f.target)
		if p == nil {
			return nil, errNoTarget
		}
		return inject(i, f, p), nil
	}
}

func kill(i *injector, f fault, p *process) func() error {
	i.fleet.kill(p)
	return func() error { return i.replace(p.role, 1, f.again) }
}

func killAll(r role) injection {
	return func(_ context.Context, i *injector, _ fault) (func() error, error) {
		all := i.fleet.all(r)
		if len(all) == 0 {
			return nil, errNoTarget
		}
		i.fleet.kill(all...)
		return func() error { return i.replace(r, len(all), false) }, nil
	}
}

func stop(_ *injector, _ fault, p *process) func() error {
	p.hold()
	return func() error { p.release(); return nil }
}

func leave(i *injector, _ fault, p *process) func() error {
	i.repairs.Go(func() error { return i.fleet.leave(p) })
	return func() error { return i.replace(p.role, 1, false) }
}

// killNodes kills brokers. They are revived with ctx, so that an interrupted campaign does not wait for them.
func killNodes(count int) injection {
	return func(ctx context.Context, i *injector, f fault) (func() error, error) {
		each := func(do func(context.Context, int) error) (err error) {
			for n := range count {
				err = errors.Join(err, do(ctx, (f.target+n)%nodes))
			}
			return err
		}
		return func() error { return each(i.cluster.revive) }, each(i.cluster.kill)
	}
}

func roll(ctx context.Context, i *injector, f fault) (func() error, error) {
	return func() error {
		for n := range nodes {
			node := (f.target + n) % nodes
			if err := errors.Join(i.cluster.kill(ctx, node), i.cluster.revive(ctx, node)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func delay(_ context.Context, i *injector, f fault) (func() error, error) {
	p := i.cluster.proxies[f.target%nodes]
	p.Delay(time.Duration(f.amount) * time.Millisecond)
	return func() error { p.Delay(0); return nil }, nil
}

// electLagging makes brokers lose acknowledged messages: one is down until its replicas are behind; then the one that
// has led alone goes down, and the first comes back and leads.
func electLagging(ctx context.Context, i *injector, f fault) (func() error, error) {
	behind, ahead := f.target%nodes, (f.target+1)%nodes
	return func() error {
		if err := errors.Join(i.cluster.kill(ctx, ahead), i.cluster.revive(ctx, behind)); err != nil {
			return err
		}
		i.sleep(brokerSession) // until the session of the other has expired, and the first leads
		return i.cluster.revive(ctx, ahead)
	}, i.cluster.kill(ctx, behind)
}

// replace starts processes instead of those that ended.
func (i *injector) replace(r role, count int, again bool) error {
	for range count {
		start := func() error { return i.fleet.start(r) }
		if r == front {
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
	i.repairs.Go(func() error {
		i.sleep(f.lasts)
		err := repair()
		i.journal.Printf("%s (target %d): repaired", f.kind, f.target)
		return err
	})
}

// sleep waits for a duration, or until the run has ended.
func (i *injector) sleep(d time.Duration) { sleep(d, i.over) }

// sleep waits for a duration, or until over is closed. It reports whether the time is up.
func sleep(d time.Duration, over <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-over:
		return false
	}
}

// watch follows the progress of a run on the topics, without the proxies, for the injector.
type watch struct {
	plans *protocol.Plans
	known map[string]bool // runs before the watch

	mutex   sync.Mutex
	chain   bool            // follow every run of a chain, until ctx ends
	run     string          // the run's id, of a chain the id of its first run; "" until its plan is published
	records map[string]bool // the keys of its records of weights, or those of all runs of the chain
	end     *schemas.End    // nil while the run lasts
	changed chan struct{}   // closed with the next change
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
	w := &watch{plans: plans, known: map[string]bool{}, records: map[string]bool{}, changed: make(chan struct{})}
	for run := range plans.Runs() {
		w.known[run] = true
	}
	return w, nil
}

// follow returns nil when the run has ended, or an error when ctx has ended.
func (w *watch) follow(ctx context.Context) error {
	defer w.plans.Close()
	for _, end := w.state(); end == nil; _, end = w.state() {
		d, _, err := w.plans.Await(ctx, protocol.MinPatience)
		if err != nil {
			return fmt.Errorf("follow the run: %w", err)
		}
		if d != nil {
			w.see(d.Message.Message)
		}
	}
	return nil
}

// see updates the state with a message of either topic.
func (w *watch) see(m wire.Message) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for run := range w.plans.Runs() {
		if w.run == "" && !w.known[run] {
			w.run = run
		}
	}
	if w.run == "" {
		return
	}
	if kind := m.Kind(); (kind == statistics.KindPrepare || kind == schemas.KindWeights) && (w.chain || m.Run() == w.run) {
		w.records[m.Key] = true
	}
	if !w.chain {
		w.end = w.plans.End(w.run)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until the run has written a number of records. It returns false if the run or ctx ends first.
func (w *watch) await(ctx context.Context, records int) bool {
	for {
		w.mutex.Lock()
		come, ended, changed := w.run != "" && len(w.records) >= records, w.end != nil, w.changed
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

// state returns the run's id, or "" before its plan is published, and how it ended, or nil while it is running.
func (w *watch) state() (run string, end *schemas.End) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.run, w.end
}

func (w *watch) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return fmt.Sprintf("run %q after %d records", w.run, len(w.records))
}
