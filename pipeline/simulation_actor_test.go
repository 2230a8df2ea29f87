package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// actor is a process of a simulation: a coroutine that gives control to the scheduler at each call of the log.
type actor struct {
	name       string
	resume     func() (struct{}, bool)
	yield      func(struct{}) bool
	unattended bool                     // there is no scheduler: calls of the log return at once
	waits      interface{ idle() bool } // for what it waits; nil: it can run
	process    *actor                   // whose thread it is; nil: it is a process
	paused     int                      // steps for which it is not scheduled
	killed     bool
	ended      bool
	err        error  // why it ended
	restart    func() // starts it again
	submitter  bool
	awaited    bool // the simulation does not end before it
	follower   bool
}

// errKilled is what every call of the log returns to an actor that has been killed.
var errKilled = errors.New("killed")

// giveWay gives control to the scheduler, and returns when the actor is scheduled again.
func (a *actor) giveWay() error {
	if a.unattended {
		return nil
	}
	if a.killed || a.yield == nil || !a.yield(struct{}{}) || a.killed {
		a.killed = true
		return errKilled
	}
	return nil
}

// unattended returns an actor for a test that calls the log itself.
func unattended() *actor { return &actor{unattended: true} }

// growStack makes a coroutine's stack as deep as a role needs it. Otherwise the runtime copies the stack each time that it
// doubles, and a schedule starts dozens of actors.
//
//go:noinline
func growStack() byte {
	var stack [24 << 10]byte
	return stack[len(os.Args)]
}

// start adds an actor that does something, and ends.
func (s *simulation) start(name string, restart func(), do func(a *actor) error) *actor {
	a := &actor{name: name, restart: restart}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		a.yield = yield
		growStack()
		a.err = do(a)
		a.ended = true
	})
	_ = stop // stopActors lets each actor return from its role instead
	a.resume = next
	s.actors = append(s.actors, a)
	return a
}

func (s *simulation) remove(a *actor) {
	s.actors = slices.DeleteFunc(s.actors, func(other *actor) bool { return other == a })
}

// restart starts an ended actor again, as a supervisor does. A submitter starts again only if it was killed, a write was refused, or its
// membership was lost.
func (s *simulation) restart(a *actor) {
	if !a.submitter || errors.Is(a.err, errKilled) || errors.Is(a.err, errRefused) || errors.Is(a.err, errLost) {
		a.restart()
	}
}

// stopActors kills all actors, and waits until they have returned.
func (s *simulation) stopActors() {
	for _, a := range slices.Clone(s.actors) {
		for a.killed, a.waits = true, nil; !a.ended; {
			s.log.current = a
			a.resume()
		}
	}
}

// pipeline returns the pipeline as an actor sees it.
func (s *simulation) pipeline(a *actor) *topics.Pipeline {
	extend := func(_ context.Context, topic string, partitions int) error {
		if err := a.giveWay(); err != nil {
			return err
		}
		for len(s.log.topics[topic]) < partitions {
			s.log.addPartition(topic, 0)
		}
		return nil
	}
	log := actorLog{s.log, a, s.random}
	client := (&protocol.Client{Log: log, Topics: s.topics, Codec: protocol.NewCodec(nil, s.chunk), Fresh: s.fresh, Clock: s.now, KeepRuns: s.keepRuns,
		Distribute: !s.local}).Beside(simName) // with the memory of a process
	client.GiveUp = s.giveUp
	return s.remaking(&topics.Pipeline{Extend: extend, Admin: simAdmin{log, s.settings}, Memory: memory.DefaultAllocator, Client: client})
}

// fresh returns a text that the simulation has not had before.
func (s *simulation) fresh() string {
	s.texts++
	return fmt.Sprintf("%08d", s.texts)
}

// simKeep is how many versions a simulation keeps.
const simKeep = 2

var simArithmetic = schemas.Arithmetic{Numerics: "simulation"}

// startRoles starts workers and solvers, and assigns the partitions to them.
func (s *simulation) startRoles(workers, solvers int) {
	for range workers {
		s.workers = append(s.workers, newSimMembership())
	}
	for range solvers {
		s.solvers = append(s.solvers, newSimMembership())
	}
	for i := range s.workers {
		s.startWorker(i)
	}
	for i := range s.solvers {
		s.startSolver(i)
	}
	s.assignAll()
}

func (s *simulation) startWorker(i int) {
	s.start(fmt.Sprint("worker ", i), func() { s.startWorker(i) }, func(a *actor) error {
		p, cache := s.pipeline(a), partition.NewCache(s.job.Memory)
		return dispatch.Serve(context.Background(), p, simArithmetic, event.Ignore{}, func() dispatch.Member {
			return s.join(a, s.workers,
				i)
		}, func(ctx context.Context, o protocol.Owner, plan *schemas.Plan, watch int64) error {
			return worker.New(p.Client, s.blas, plan, watch, o, worker.Options{Cache: cache, Executor: sequential{}}, event.Ignore{}).Work(ctx)
		})
	})
}

func (s *simulation) startSolver(i int) {
	s.start(fmt.Sprint("solver ", i), func() { s.startSolver(i) }, func(a *actor) error {
		p, cache := s.pipeline(a), partition.NewCache(s.job.Memory)
		if s.stores {
			p.Sums = &solver.Store{}
		}
		return dispatch.Serve(context.Background(), p, simArithmetic, event.Ignore{}, func() dispatch.Member {
			return s.join(a, s.solvers,
				i)
		}, func(ctx context.Context, o protocol.Owner, plan *schemas.Plan, watch int64) error {
			local := worker.NewLocal(p.Client, s.blas, plan, worker.Options{Cache: cache, Executor: sequential{}}, event.Ignore{})
			if err := dispatch.SolveWhenOwner(ctx, p, s.blas, local, o, plan, watch, event.Ignore{}); err != nil || s.random == nil {
				return err
			}
			return s.prune(ctx, p)
		})
	})
}

// submit starts a submitter: it submits a run of the job with a seed, and follows the run to its end. If warm, the run starts from the
// latest version.
func (s *simulation) submit(seed uint64, supersede, warm bool) *actor {
	a := s.start("submitter", func() { s.submit(seed, supersede, warm) }, func(a *actor) error {
		report, id, err := s.submitAndFollow(s.pipeline(a), seed, supersede, warm)
		if err == nil {
			s.checkReport(id, report)
		}
		var end *dispatch.RunError
		switch {
		case err == nil:
			s.outcomes = append(s.outcomes, schemas.Done)
			if s.ends[id] != schemas.Done && !s.historyLost {
				s.fail("a submitter has the report of run %s, which has ended as %q", id, s.ends[id])
			}
		case errors.As(err, &end):
			s.outcomes = append(s.outcomes, end.State)
			if end.State == schemas.Failed {
				s.checkFailure(end)
			}
		}
		return err
	})
	a.submitter = true
	return a
}

func (s *simulation) submitAndFollow(p *topics.Pipeline, seed uint64, supersede, warm bool) (*schemas.Report, string, error) {
	ctx, began := context.Background(), s.steps
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, "", err
	}
	job, seals := s.job, []schemas.SourceSeal(nil)
	job.Seed = seed
	if warm {
		job.Warm = s.warmStart(ctx, p, seed)
	}
	if s.files {
		seal, err := s.sealed(ctx, p, l)
		if err != nil {
			return nil, "", err
		}
		seals = append(seals, *seal)
	}
	if s.chooses {
		s.log.happen(choosing, "it is chosen how sparse rows are prepared")
		if job, err = replay.Resolve(ctx, p, s.process(actorOf(p)), job, &source.Ingested{}, event.Ignore{}); err != nil {
			return nil, "", err
		}
	}
	plan, err := dispatch.Plan(ctx, p, job, simArithmetic, seals, l, topics.ExamplesRetention{})
	if err != nil {
		return nil, "", err
	}
	s.drawn[seed]++
	plan.Submission = strconv.Itoa(s.drawn[seed])
	if _, known := s.begun[plan.Run()]; !known {
		s.begun[plan.Run()] = began
	}
	if plan, l, err = dispatch.Enqueue(ctx, p, plan, l, supersede, event.Ignore{}); err != nil {
		return nil, "", err
	}
	id := plan.Run()
	report, err := dispatch.Follow(ctx, p, plan, l, event.Ignore{})
	return report, id, err
}

// submitting reports whether a submitter still waits for the end of its run, or a version is made again.
func (s *simulation) submitting() bool {
	return slices.ContainsFunc(s.actors, func(a *actor) bool { return (a.submitter || a.awaited) && !a.ended })
}
