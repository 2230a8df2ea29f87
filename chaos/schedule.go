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
)

// moment is a place in a run: the visit that is due. The survey is the moment (-1, 0). At (t, 0) of a later stage the
// residuals of the stage before are published and sealed first, and after the last stage the version is finished.
type moment struct{ stage, visit int }

func (m moment) before(other moment) bool {
	return cmp.Or(cmp.Compare(m.stage, other.stage), cmp.Compare(m.visit, other.visit)) < 0
}

func (m moment) String() string {
	if m.stage == schemas.Survey {
		return "survey"
	}
	return fmt.Sprintf("stage %d visit %d", m.stage, m.visit)
}

// kind is what is done to whom.
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
	resetBroker   kind = "reset connections"
	delayBroker   kind = "delay a broker"
	loseAnswers   kind = "lose answers"
)

// fault is one entry of a schedule.
type fault struct {
	kind   kind
	at     moment        // what it waits for
	after  time.Duration // and how long from there
	lasts  time.Duration // until what it took away comes back
	target int           // which one, modulo those that there are
	amount int           // loseAnswers: how many; delayBroker: milliseconds
	again  bool          // killSubmitter: the same command again, otherwise one that attaches
}

func (f fault) String() string {
	return fmt.Sprintf("%s (target %d) at %s + %v for %v", f.kind, f.target, f.at, f.after, f.lasts)
}

// weighted is a kind, how often it comes relative to the others, and how long it lasts at least and at most.
type weighted struct {
	kind     kind
	weight   int
	from, to time.Duration
}

// kinds have each phase of the protocol meet each kind of trouble: what is cheap to get over comes more often.
func kinds() []weighted {
	const ms = time.Millisecond
	return []weighted{
		{killWorker, 4, 0, 1500 * ms},
		{killSolver, 4, 0, 1500 * ms},
		{killSubmitter, 2, 0, 1000 * ms},
		{killWorkers, 1, 0, 1000 * ms},
		{killSolvers, 1, 0, 1000 * ms},
		{stopWorker, 4, 100 * ms, 4000 * ms},
		{stopSolver, 4, 100 * ms, 4000 * ms},
		{stopSubmitter, 1, 100 * ms, 4000 * ms},
		{joinWorker, 2, 0, 0},
		{leaveWorker, 2, 0, 1500 * ms},
		{killBroker, 2, 500 * ms, 4000 * ms},
		{resetBroker, 4, 0, 0},
		{delayBroker, 3, 500 * ms, 3000 * ms},
		{loseAnswers, 4, 0, 0},
	}
}

const (
	leastFaults, mostFaults = 5, 8
	// A process that is stopped for longer than its group's session (10 s, see pipeline) is taken for dead, and comes back
	// as a zombie. One stop in four is that long.
	longStops            = 4
	longStop, longerStop = 11 * time.Second, 14 * time.Second
	// mostAfter is about the time of a visit, so that a fault comes anywhere within one.
	mostAfter = 60 * time.Millisecond
)

// schedule is the faults of a run in the order in which they come, a function of the seed and of the stages. At least
// leastFaults come before the last stage is fitted; some runs have one more while the version is finished. No schedule
// kills two brokers: two replicas of three must have a message before it counts.
func schedule(seed uint64, stages []schemas.Stage) []fault {
	draw := rand.New(rand.NewPCG(seed, 0))
	n := leastFaults + draw.IntN(mostFaults-leastFaults+1)
	var faults []fault
	for len(faults) < n {
		f := drawFault(draw)
		if f.kind == killBroker && slices.ContainsFunc(faults, func(o fault) bool { return o.kind == killBroker }) {
			continue
		}
		f.at = drawMoment(draw, stages)
		// The same command again would begin another run if this one ended meanwhile.
		f.again = f.again && f.at.stage <= 0
		faults = append(faults, f)
	}
	if f := drawFault(draw); draw.IntN(3) == 0 && f.kind != killBroker {
		f.at, f.again = moment{len(stages), 0}, false
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

func drawFault(draw *rand.Rand) fault {
	all := kinds()
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
		kind: k.kind, after: between(draw, 0, mostAfter), lasts: between(draw, k.from, k.to), target: draw.IntN(1 << 16),
		amount: 1 + draw.IntN(4), again: draw.IntN(2) == 0,
	}
	switch stops := k.kind == stopWorker || k.kind == stopSolver; {
	case stops && draw.IntN(longStops) == 0:
		f.lasts = between(draw, longStop, longerStop)
	case k.kind == delayBroker:
		f.amount = 20 + draw.IntN(280)
	}
	return f
}

// drawMoment chooses a stage, then one of its visits: short stages are not to be spared.
func drawMoment(draw *rand.Rand, stages []schemas.Stage) moment {
	stage := schemas.Survey + draw.IntN(len(stages)+1)
	if stage == schemas.Survey {
		return moment{schemas.Survey, 0}
	}
	return moment{stage, draw.IntN(visits(stages[stage]))}
}

// visits is how many a stage has at most. One that ends sooner is over when the fault of a later visit comes.
func visits(s schemas.Stage) int {
	l := links.Named(s.Link)
	if l.Quadratic {
		return 1
	}
	return l.VisitsPerPass() * s.Passes
}

// between draws a whole number of milliseconds.
func between(draw *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(draw.Int64N(int64((to-from)/time.Millisecond)+1))*time.Millisecond
}
