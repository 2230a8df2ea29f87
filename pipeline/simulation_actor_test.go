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

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
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
		p, cache := s.pipeline(a), visit.NewCache(s.job.Memory)
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
		p, cache := s.pipeline(a), visit.NewCache(s.job.Memory)
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

// sequential is the executor of workers of a simulation, which schedules every call of the log itself: it takes one step after the other
// in the goroutine of the actor.
type sequential struct{}

// Run takes one segment after the other, and waits for each write.
func (sequential) Run(ctx context.Context, s *visit.Scan) error {
	process := s.Processor()
	for _, of := range s.Shares {
		for l, err := range s.Loads(ctx, of, func() error { return nil }) {
			if err != nil {
				return err
			}
			outcome, err := process(ctx, l)
			if err != nil {
				return err
			}
			write, err := s.Collect(l, outcome)
			if err == nil && write != nil {
				err = write(ctx)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// threads are what a process waits for.
type threads []*actor

// idle reports whether all go on.
func (t threads) idle() bool {
	return !slices.ContainsFunc(t, func(a *actor) bool { return a.ended })
}

// inThreads runs each feed of a process in a thread of it, until all have ended, or one has an error.
func (s *simulation) inThreads(ctx context.Context, process *actor, feeds []*source.Feed) (err error) {
	var running threads
	for n, feed := range feeds {
		running = append(running, s.startThread(process, fmt.Sprintf("%s, feed %d", process.name, n), func() error { return feed.Run(ctx) }))
	}
	for len(running) > 0 {
		process.waits = running
		killed := process.giveWay()
		process.waits = nil
		if err == nil {
			err = killed
		}
		for _, t := range running {
			if t.ended && t.err != nil && err == nil {
				err = t.err
			}
		}
		running = slices.DeleteFunc(running, func(t *actor) bool { return t.ended })
		if err != nil {
			for _, t := range running {
				t.killed, t.paused, t.waits = true, 0, nil
			}
		}
		if killed != nil {
			return killed
		}
	}
	return err
}

// startThread adds a thread of a process.
func (s *simulation) startThread(process *actor, name string, do func() error) *actor {
	t := &actor{name: name, process: process, restart: func() {}}
	t.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		growStack()
		t.err = do()
		t.ended = true
	})
	s.actors = append(s.actors, t)
	return t
}

// process returns what an actor works on runs with: its roles are threads.
func (s *simulation) process(a *actor) dispatch.Process {
	return dispatch.Process{BLAS: s.blas, Arithmetic: simArithmetic, Executor: sequential{},
		Together: func(parts ...func()) { s.together(a, parts) }}
}

// together runs the parts of a process in threads of it, and returns when all have ended. If the process is killed, its threads are too.
func (s *simulation) together(process *actor, parts []func()) {
	var running threads
	for n, part := range parts {
		running = append(running, s.startThread(process, fmt.Sprintf("%s, thread %d", process.name, n), func() error {
			part()
			return nil
		}))
	}
	for len(running) > 0 {
		process.waits = running
		killed := process.giveWay()
		process.waits = nil
		for _, t := range running {
			for killed != nil && !t.ended {
				t.killed, t.waits, s.log.current = true, nil, t
				t.resume()
			}
			if t.ended {
				s.remove(t)
			}
		}
		s.log.current = process
		running = slices.DeleteFunc(running, func(t *actor) bool { return t.ended })
	}
}

// request is a write that is on its way to the log, while its client has given it up. It arrives in a later step.
type request struct {
	topic     string
	partition int
	messages  []wire.Message
	arrives   int // the step
}

// maxDelay is for how many steps a request may be under way.
const maxDelay = 600

// delay lets a request arrive later. It was sent for the first time in the given step.
func (l actorLog) delay(topic string, partition, sent int, messages []wire.Message) {
	arrives := l.step + 1 + l.random.IntN(max(1, sent+maxDelay-l.step))
	l.delayed = append(l.delayed, request{topic, partition, messages, arrives})
}

// deliver applies the requests that arrive until a step. They come after what others have written meanwhile.
func (l *simLog) deliver(until int) {
	for i := 0; i < len(l.delayed); {
		r := l.delayed[i]
		if r.arrives > until {
			i++
			continue
		}
		l.delayed = slices.Delete(l.delayed, i, i+1)
		if r.partition >= len(l.topics[r.topic]) {
			continue // the topic is deleted
		}
		l.happen(lateRequest, "%d messages for %s[%d] arrive late", len(r.messages), r.topic, r.partition)
		l.apply(r.topic, r.partition, r.messages)
	}
}

// apply writes the messages of a request, and returns the offset of the first.
func (l *simLog) apply(topic string, partition int, messages []wire.Message) (first int64) {
	for i, m := range messages {
		if offset := l.write(topic, partition, m); i == 0 {
			first = offset
		}
	}
	return first
}

// answerLost reports whether the answer to a write is lost. Half of the time the actor then pauses for as long as a request
// may take, while the others go on.
func (l actorLog) answerLost() bool {
	if !l.chance(0.05) {
		return false
	}
	l.count(lostAnswer)
	if l.chance(0.5) {
		l.self().paused = l.random.IntN(maxDelay)
	}
	return true
}

// errRefused is why the log refuses a write.
var errRefused = errors.New("this process may not write")

// Append writes the messages in one or more requests. A request whose answer is lost is written again; it may itself arrive before
// that, or much later. If the actor is killed, its request may still arrive. A refused request never does.
func (l actorLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (base int64, err error) {
	for base = -1; len(messages) > 0; {
		n := len(messages)
		if l.chance(0.3) {
			n = 1 + l.random.IntN(n)
		}
		var first int64
		sent := l.step
		for again := true; again; {
			if err := l.giveWay(ctx); err != nil {
				if l.chance(0.3) {
					l.delay(topic, partition, sent, messages[:n])
				}
				return base, err
			}
			if l.chance(0.002) {
				l.happen(refusal, "a write of %s to %s[%d] is refused", l.name, topic, partition)
				return base, &kafkalog.AccessError{Err: errRefused, Check: "the ACLs"}
			}
			if again = l.answerLost(); again && l.chance(0.5) {
				l.delay(topic, partition, sent, messages[:n])
				continue
			}
			first = l.apply(topic, partition, messages[:n])
		}
		if base < 0 {
			base = first
		}
		messages = messages[n:]
	}
	return base, l.giveWay(ctx)
}

// Scatter writes the messages in random order, and returns the offsets of those that were given.
func (l actorLog) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) ([]int64, error) {
	order, offsets := make([]int, len(messages)), make([]int64, len(messages))
	for i := range order {
		order[i] = i
	}
	if l.random != nil {
		l.random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	for _, i := range order {
		var err error
		if offsets[i], err = l.Append(ctx, topic, partition, messages[i]); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// simMembership is an actor's membership of a consumer group: the partitions that it believes it owns.
type simMembership struct {
	owned   []int
	changed chan struct{}
	err     error
	away    bool // the actor has left the group
}

func newSimMembership() *simMembership { return &simMembership{changed: make(chan struct{}, 1)} }

func (m *simMembership) Owned() []int                      { return m.owned }
func (m *simMembership) Changed() <-chan struct{}          { return m.changed }
func (m *simMembership) Commit(map[int]int64, func(error)) {}
func (m *simMembership) Err() error                        { return m.err }

func (m *simMembership) assign(partitions ...int) {
	m.owned = partitions
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// errLost is why a membership has ended.
var errLost = errors.New("the group has another member of this name")

// lose ends a membership.
func (m *simMembership) lose() {
	m.err = errLost
	m.assign()
}

// simMember is a membership that its actor can leave.
type simMember struct {
	*simMembership
	leave func()
}

// Leave makes the group assign all partitions to the others.
func (m simMember) Leave() error {
	m.leave()
	return nil
}

// join returns the membership of an actor, given those of its group and its number. If it was lost or left, it is a new one, for which
// the group assigns all partitions again. A killed process does not leave: it is back before the group has missed it.
func (s *simulation) join(a *actor, group []*simMembership, i int) dispatch.Member {
	if group[i].err != nil || group[i].away {
		group[i] = newSimMembership()
		s.assignAll()
	}
	m := group[i]
	return simMember{m, func() {
		if !a.killed && m.err == nil {
			m.away = true
			m.assign()
			s.assignAll()
		}
	}}
}

// assignAll assigns each partition to one worker and the plans topic to one solver, and notifies all of them.
func (s *simulation) assignAll() {
	s.reassign(func() bool { return true })
}

// reassign draws who owns what. An actor that is not notified keeps what it had, so a partition may have two owners for a while,
// or none.
func (s *simulation) reassign(notified func() bool) {
	owned := make([][]int, len(s.workers))
	if present := s.present(s.workers); len(present) > 0 {
		for p := range s.log.topics[s.topics.Examples] {
			i := present[s.choose(len(present))]
			if s.random == nil {
				i = present[p%len(present)]
			}
			owned[i] = append(owned[i], p)
		}
	}
	for i, m := range s.workers {
		if notified() {
			m.assign(owned[i]...)
		}
	}
	for _, group := range [][]*simMembership{s.solvers, s.runners} {
		s.activate(group, notified)
	}
}

// activate draws which member of a group is the active one: it owns the plans topic.
func (s *simulation) activate(group []*simMembership, notified func() bool) {
	active := -1
	if present := s.present(group); len(present) > 0 {
		active = present[s.choose(len(present))]
	}
	for i, m := range group {
		if !notified() {
			continue
		}
		if i == active {
			m.assign(0)
		} else {
			m.assign()
		}
	}
}

// present returns the numbers of the members that have neither left their group nor been expelled from it.
func (s *simulation) present(group []*simMembership) (numbers []int) {
	for i, m := range group {
		if !m.away && m.err == nil {
			numbers = append(numbers, i)
		}
	}
	return numbers
}
