//go:build unix

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	links "github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
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
