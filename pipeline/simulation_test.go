package pipeline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
)

// The simulation runs the roles themselves, worker, solver and submitter, as
// coroutines over a log in memory: without time, sockets and threads. A scheduler
// with a seed chooses who moves next, and what breaks.
//
// What holds after each write: a record of an identity (run, kind, stage, visit,
// partition, parent) has the bits that it has when nothing breaks, whoever writes
// it and however often. As the weights' bits depend on those of all records
// before, a span that was counted twice, or a residual that was read and not
// sealed, would show in the next record. What holds in the end: every run has
// ended, one that has lost nothing is done, and its version can be read.
var (
	schedules = flag.Uint64("schedules", 100, "how many schedules are simulated")
	schedule  = flag.Uint64("schedule", 0, "simulate this one alone, and tell what happens")
)

// actor is a process: a coroutine that gives way whenever it calls the log.
type actor struct {
	name   string
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	waits  *simSubscription // nil: it does not wait
	free   bool             // it never gives way
	killed bool
	over   bool
	paused int    // moves of others that it sleeps through
	again  func() // starts a submitter once more that was killed
	err    error
}

// turn gives way, and goes on when the scheduler says so.
func (a *actor) turn() error {
	if a.free {
		return nil
	}
	if a.killed || a.yield == nil || !a.yield(struct{}{}) || a.killed {
		a.killed = true
		return errKilled
	}
	return nil
}

// deepen makes a coroutine's stack at once as deep as a role needs it: it would be
// copied each time that it is doubled, and processes begin by the dozen.
//
//go:noinline
func deepen() byte {
	var stack [24 << 10]byte
	return stack[len(os.Args)]
}

func (s *simulation) start(name string, do func(a *actor) error) *actor {
	a := &actor{name: name}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		a.yield = yield
		deepen()
		a.err = do(a)
		a.over = true
	})
	_ = stop // a killed actor runs to its end instead
	a.resume = next
	s.actors = append(s.actors, a)
	return a
}

// simMember is what an actor thinks that it owns.
type simMember struct {
	owned   []int
	changed chan struct{}
}

func newSimMember() *simMember { return &simMember{changed: make(chan struct{}, 1)} }

func (m *simMember) Owned() []int             { return m.owned }
func (m *simMember) Changed() <-chan struct{} { return m.changed }
func (m *simMember) Err() error               { return nil }
func (m *simMember) Leave() error             { return nil }

func (m *simMember) assign(partitions ...int) {
	m.owned = partitions
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// A world is what simulations of one shape have in common: the examples, and the
// records of runs that nothing disturbs, by run and identity.
type world struct {
	blas       *kernel.BLAS
	job        Job
	batches    [][]schemas.Message
	digests    map[recordKey]schemas.Digest // of all runs
	remembered *remembered
}

// simPartitions is how many partitions the examples have, simMessages how many
// messages each of them, simRows how many rows each of those.
const (
	simPartitions = 2
	simMessages   = 2
	simRows       = 4
)

func newWorld(t testing.TB, bytes int64, list ...schemas.Stage) *world {
	t.Helper()
	blas, err := kernel.Open("gonum")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{blas: blas, digests: map[recordKey]schemas.Digest{}, remembered: &remembered{}}
	w.job = Job{
		Name: "sim", Stages: list, Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 1, Memory: bytes,
		Prepare: schemas.Prepare{Scale: "none"},
	}
	w.job.Examples.Missing = "error"
	for p := range simPartitions {
		var messages []schemas.Message
		for m := range simMessages {
			data := rings(simRows, 2, 2, uint64(10*p+m))
			rows := schemas.ExampleRows{Rows: simRows, Cols: 2, Words: data.labels}
			for _, row := range data.rows {
				rows.Floats = append(rows.Floats, row...)
			}
			record := rows.Record(memory.DefaultAllocator)
			value, err := schemas.EncodeExamples(record, memory.DefaultAllocator)
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, schemas.Message{Value: value})
		}
		w.batches = append(w.batches, messages)
	}
	// What disturbed runs are measured by: of two configurations, as often as any schedule may run them.
	calm := w.simulation(0)
	calm.random, calm.log.check = nil, calm.learn
	calm.crew(1, 1)
	for _, seed := range []uint64{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2} {
		calm.submit(seed, false)
		calm.settle()
	}
	if calm.conclude(); calm.broken != nil {
		t.Fatal(calm.broken)
	}
	if all := bytes >= 1<<20; calm.gramsFirst > 0 != all {
		t.Fatalf("%d Gram matrices are summed before the rest, all is in memory: %v", calm.gramsFirst, all)
	}
	return w
}

type simulation struct {
	*world
	topics     run.Topics
	log        *simLog
	random     *rand.Rand
	actors     []*actor
	ready      []*actor // of the last move, like those who wait
	waiting    []*actor
	workers    []*simMember
	solvers    []*simMember
	broken     error // the first invariant that did not hold
	lost       bool  // something that a run needs was deleted
	chunk      int   // bytes of messages; 1 makes a message of every tensor
	moves      int
	faults     int          // that are left
	drawn      int          // texts that are unlike any before
	gramsFirst int          // visits whose Gram matrices were all written before other sums
	grams      map[int]bool // partitions whose Gram matrix of the visit under way is written
	tell       func(string, ...any)
	ended      []string // how the runs did that were submitted
	submitted  []string // the runs that were, each once
}

func (w *world) simulation(seed uint64) *simulation {
	s := &simulation{
		world: w, topics: run.TopicsOf("sim"), random: rand.New(rand.NewPCG(seed, 7)), log: &simLog{topics: map[string][]*simPartition{}},
		tell: func(string, ...any) {},
	}
	for topic, partitions := range map[string]int{
		s.topics.Examples: simPartitions, s.topics.Residuals: simPartitions, s.topics.Statistics: 2, s.topics.Weights: 1, s.topics.Plans: 1, s.topics.Quarantine: 1,
	} {
		for range partitions {
			s.log.topics[topic] = append(s.log.topics[topic], &simPartition{})
		}
	}
	for p, messages := range w.batches {
		for _, m := range messages {
			s.log.topics[s.topics.Examples][p].append(m)
		}
	}
	s.log.check = s.verify
	return s
}

// recordKey is which record a message is of. A manifest's has a kind and a run alone.
type recordKey struct{ schemas.Identity }

func (k recordKey) String() string { return fmt.Sprintf("%v of %s", k.Identity, k.Parent) }

// keyOf is the key of a record, and whether a message is of one that has the same
// bits whoever writes it.
func keyOf(m schemas.Message) (key recordKey, fixed bool) {
	switch m.Kind() {
	case schemas.KindVisit, schemas.KindGram, schemas.KindSample, schemas.KindSeal, schemas.KindPrepare, schemas.KindWeights:
		id, err := schemas.IdentityOf(m)
		return recordKey{id}, err == nil
	case schemas.KindManifest:
		return recordKey{schemas.Identity{Kind: schemas.KindManifest, Run: m.Get("run")}}, true
	}
	return recordKey{}, false
}

// bits of a record's message: those of a seal may be of other offsets.
func (w *world) bits(m schemas.Message) schemas.Digest {
	switch m.Kind() {
	case schemas.KindSeal:
		return schemas.Digest(m.Get("rows") + "/" + m.Get("scores"))
	case schemas.KindManifest:
		manifest, err := newMemo(w.remembered, 0).DecodeManifest(m)
		if err != nil {
			return schemas.Digest(err.Error())
		}
		return manifest.WeightsDigest
	}
	return schemas.Digest(m.Get("digest"))
}

func (s *simulation) learn(_ string, m schemas.Message) {
	if key, fixed := keyOf(m); fixed {
		s.digests[key] = s.bits(m)
	}
	switch id, err := schemas.IdentityOf(m); {
	case err != nil || id.Stage == schemas.Survey || id.Visit != 0:
	case id.Kind == schemas.KindGram:
		if s.grams == nil {
			s.grams = map[int]bool{}
		}
		s.grams[id.Partition] = true
	case id.Kind == schemas.KindVisit:
		if len(s.grams) == simPartitions {
			s.gramsFirst++
		}
		s.grams = nil
	}
}

func (s *simulation) verify(topic string, m schemas.Message) {
	key, fixed := keyOf(m)
	if !fixed {
		return
	}
	if want, known := s.digests[key]; !known {
		s.fail("%s: the %v was never to be written", topic, key)
	} else if got := s.bits(m); got != want {
		s.fail("%s: the %v has bits %s, undisturbed %s", topic, key, got, want)
	}
}

func (s *simulation) fail(format string, values ...any) {
	if s.broken == nil {
		s.broken = fmt.Errorf(format, values...)
	}
}

func (s *simulation) pipeline(a *actor) *pipeline {
	return &pipeline{Client: &run.Client{Log: simClientLog{s.log, a, s.random}, Topics: s.topics, Codec: newMemo(s.remembered, s.chunk), Fresh: s.fresh}}
}

// fresh is a text unlike any before in the simulation.
func (s *simulation) fresh() string {
	s.drawn++
	return strconv.Itoa(s.drawn)
}

var simArithmetic = schemas.Arithmetic{Build: "simulation"}

// crew starts so many workers and solvers.
func (s *simulation) crew(workers, solvers int) {
	for range workers {
		s.workers = append(s.workers, newSimMember())
	}
	for range solvers {
		s.solvers = append(s.solvers, newSimMember())
	}
	for i := range s.workers {
		s.work(i)
	}
	for i := range s.solvers {
		s.solve(i)
	}
	s.assignAll()
}

func (s *simulation) work(i int) {
	of := s.workers[i]
	s.start(fmt.Sprint("worker ", i), func(a *actor) error {
		p := s.pipeline(a)
		return p.serve(context.Background(), simArithmetic, event.Ignore{}, func() member { return of }, func(ctx context.Context, o run.Owner, plan *schemas.Plan, watch int64) error {
			return worker.New(p.Client, s.blas, plan, watch, o, worker.Options{Bytes: s.job.Memory, Sequential: true}, event.Ignore{}).Work(ctx)
		})
	})
}

func (s *simulation) solve(i int) {
	of := s.solvers[i]
	s.start(fmt.Sprint("solver ", i), func(a *actor) error {
		p := s.pipeline(a)
		return p.serve(context.Background(), simArithmetic, event.Ignore{}, func() member { return of }, func(ctx context.Context, o run.Owner, plan *schemas.Plan, watch int64) error {
			return p.solveWhenOwner(ctx, s.blas, o, plan, watch, event.Ignore{})
		})
	})
}

// submit starts who submits a run and follows it to its end.
func (s *simulation) submit(seed uint64, supersede bool) *actor {
	a := s.start("submitter", func(a *actor) error {
		p, ctx := s.pipeline(a), context.Background()
		l, err := p.ReadLedger(ctx)
		if err != nil {
			return err
		}
		plan := &schemas.Plan{
			Name: s.job.Name, Foreign: true, Missing: s.job.Examples.Missing, OnBadMessage: s.job.OnBadMessage, Prepare: s.job.Prepare,
			Stages: s.job.Stages, Intercept: s.job.Intercept, Seed: seed, Segment: s.job.Segment, Arithmetic: simArithmetic,
		}
		for p := range simPartitions {
			plan.Spans = append(plan.Spans, schemas.Span{Partition: p, From: 0, To: simMessages})
		}
		plan.Ended = l.Ended(plan.Content())
		if plan.Since, err = p.since(ctx); err != nil {
			return err
		}
		if id := plan.Run(); !slices.Contains(s.submitted, id) {
			s.submitted = append(s.submitted, id)
		}
		plan, _, err = p.submit(ctx, plan, l, supersede, event.Ignore{})
		if err == nil {
			var report *schemas.Report
			report, err = p.follow(ctx, plan, event.Ignore{})
			if err == nil && report.Rows != simRows*simMessages*simPartitions {
				s.fail("run %s: %d rows", plan.Run(), report.Rows)
			}
		}
		var end *RunError
		switch {
		case err == nil:
			s.ended = append(s.ended, schemas.Done)
		case errors.As(err, &end):
			s.ended = append(s.ended, end.State)
			if end.State == schemas.Failed && !s.lost {
				s.fail("run %s: %v", end.Run, err)
			}
		}
		return err
	})
	a.again = func() { s.submit(seed, supersede) }
	return a
}

// assignAll gives every partition to one worker, and the plans to one solver, and
// tells everybody.
func (s *simulation) assignAll() {
	s.reassign(func() bool { return true })
}

// reassign draws who owns what. Those who are not told go on as before, so that
// for a while two own a partition, or nobody does.
func (s *simulation) reassign(told func() bool) {
	owned := make([][]int, len(s.workers))
	for p := range simPartitions {
		i := s.intn(len(s.workers))
		owned[i] = append(owned[i], p)
	}
	for i, m := range s.workers {
		if told() {
			m.assign(owned[i]...)
		}
	}
	active := s.intn(len(s.solvers))
	for i, m := range s.solvers {
		if !told() {
			continue
		}
		if i == active {
			m.assign(0)
		} else {
			m.assign()
		}
	}
}

func (s *simulation) intn(n int) int {
	if s.random == nil {
		return 0
	}
	return s.random.IntN(n)
}

// mostMoves ends a simulation that does not end by itself. The longest that does
// has about a tenth of them.
const mostMoves = 100_000

// settle moves until whoever has submitted something has seen its end.
func (s *simulation) settle() {
	if s.faults == 0 {
		s.assignAll()
	}
	for s.broken == nil && slices.ContainsFunc(s.actors, func(a *actor) bool { return a.name == "submitter" && !a.over }) {
		if s.moves++; s.moves > mostMoves {
			s.fail("no end after %d moves", s.moves)
			return
		}
		if s.faults > 0 && s.random.Float64() < 0.01 {
			s.faults--
			s.breakSomething()
			if s.faults == 0 {
				s.assignAll()
			}
		}
		s.move()
	}
}

// move lets one actor go on.
func (s *simulation) move() {
	ready, waiting := s.ready[:0], s.waiting[:0]
	for _, a := range s.actors {
		switch {
		case a.over:
		case a.paused > 0:
			a.paused--
		case a.waits != nil && a.waits.idle():
			waiting = append(waiting, a)
		default:
			ready = append(ready, a)
		}
	}
	s.ready, s.waiting = ready, waiting // room for the next move
	if len(ready) == 0 {
		ready = waiting // time passes: somebody has waited long enough
	}
	if len(ready) == 0 {
		return // those who are paused come back
	}
	a := ready[s.intn(len(ready))]
	a.resume()
	if a.over {
		s.actors = slices.DeleteFunc(s.actors, func(other *actor) bool { return other == a })
		s.tell("%d: %s is over: %v", s.moves, a.name, a.err)
		s.again(a)
	}
}

// again starts a process anew that has ended, as whoever runs it does.
func (s *simulation) again(a *actor) {
	role, number, _ := strings.Cut(a.name, " ")
	var i int
	fmt.Sscan(number, &i)
	switch role {
	case "worker":
		s.work(i)
	case "solver":
		s.solve(i)
	case "submitter":
		if errors.Is(a.err, errKilled) {
			a.again()
		}
	}
}

// breakSomething is one fault.
func (s *simulation) breakSomething() {
	a := s.actors[s.random.IntN(len(s.actors))]
	switch fault := s.random.IntN(10); fault {
	case 0, 1, 2:
		s.tell("%d: %s is killed", s.moves, a.name)
		a.killed, a.paused, a.waits = true, 0, nil
	case 3, 4:
		a.paused = 20 + s.random.IntN(400)
		s.tell("%d: %s sleeps through %d moves", s.moves, a.name, a.paused)
	case 5, 6:
		s.tell("%d: partitions change hands", s.moves)
		s.reassign(func() bool { return s.random.IntN(2) == 0 })
	case 7:
		s.tell("%d: compaction", s.moves)
		s.compact()
	case 8:
		p := s.log.topics[s.topics.Residuals][s.random.IntN(simPartitions)]
		before := p.first + s.random.Int64N(p.end-p.first+1)
		s.tell("%d: residuals before %d expire", s.moves, before)
		p.expire(before)
	case 9:
		if s.random.IntN(3) > 0 {
			return
		}
		topic := []string{s.topics.Statistics, s.topics.Statistics, s.topics.Examples}[s.random.IntN(3)]
		partitions := s.log.topics[topic]
		p := partitions[s.random.IntN(len(partitions))]
		s.lost = true
		if n := len(p.messages); n > 0 && topic == s.topics.Statistics && s.random.IntN(2) == 0 {
			at := s.random.IntN(n) // it was acknowledged, and its leader was the only one that had it
			s.tell("%d: %s@%d is lost", s.moves, topic, p.messages[at].Offset)
			p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
			return
		}
		before := p.first + s.random.Int64N(p.end-p.first+1)
		s.tell("%d: %s before %d expire", s.moves, topic, before)
		p.expire(before)
	}
}

// compact cleans what is older than the runs that have not ended: so much is what
// min.compaction.lag.ms keeps from it.
func (s *simulation) compact() {
	p := s.pipeline(&actor{free: true})
	l, err := p.ReadLedger(context.Background())
	if err != nil {
		s.fail("read plans: %v", err)
		return
	}
	plans, weights := s.log.topics[s.topics.Plans][0], s.log.topics[s.topics.Weights][0]
	beforePlans, beforeWeights := plans.end, weights.end
	for _, p := range l.Unfinished() {
		beforeWeights = min(beforeWeights, p.Since.Weights)
		for _, m := range plans.messages {
			if m.Get("run") == p.Run() {
				beforePlans = min(beforePlans, m.Offset)
			}
		}
	}
	plans.compact(beforePlans)
	weights.compact(beforeWeights)
}

// conclude ends all processes, compacts everything, and reads each version that
// is there.
func (s *simulation) conclude() {
	for _, a := range s.actors {
		for a.killed, a.waits = true, nil; !a.over; {
			a.resume()
		}
	}
	if s.broken != nil {
		return
	}
	p, ctx := s.pipeline(&actor{free: true}), context.Background()
	before, err := p.ReadLedger(ctx)
	if err != nil {
		s.fail("read plans: %v", err)
		return
	}
	s.compact()
	l, err := p.ReadLedger(ctx)
	if err != nil {
		s.fail("read plans: %v", err)
		return
	}
	passedOver := &events{}
	if l.Report(passedOver); len(passedOver.all) > 0 {
		s.fail("read plans: %v", passedOver.all)
	}
	manifests, err := p.Versions(ctx)
	if err != nil {
		s.fail("%v", err)
	}
	done := 0
	for _, id := range s.submitted {
		end := before.End(id)
		if after := l.End(id); end != nil && (after == nil || after.State != end.State) {
			s.fail("run %s was %s, after compaction %+v", id, end.State, after)
		}
		if end == nil {
			continue
		}
		if end.State != schemas.Done {
			continue
		}
		done++
		if report, err := p.follow(ctx, l.Plan(id), event.Ignore{}); err != nil || report.Rows != simRows*simMessages*simPartitions {
			s.fail("run %s is done: %+v, %v", id, report, err)
		}
	}
	if done != len(manifests) {
		s.fail("%d runs are done, there are %d versions", done, len(manifests))
	}
	for _, m := range manifests {
		model, err := p.Model(context.Background(), m.Run)
		if err != nil {
			s.fail("%v", err)
		} else if model.Digest() != m.WeightsDigest {
			s.fail("version %d has digest %s, its manifest says %s", m.Version, model.Digest(), m.WeightsDigest)
		}
	}
}

// disturbed is one schedule.
func (w *world) disturbed(seed uint64, tell func(string, ...any)) *simulation {
	s := w.simulation(seed)
	if tell != nil {
		s.tell = tell
	}
	s.chunk = int(seed / 3 % 4 / 3)
	s.crew(1+s.random.IntN(3), 1+s.random.IntN(2))
	for rounds := 1 + s.random.IntN(4)/3; rounds > 0; rounds-- {
		s.faults = s.random.IntN(10)
		for submitters := 1 + s.random.IntN(3)/2; submitters > 0; submitters-- {
			s.submit(uint64(1+s.random.IntN(3)/2), s.random.IntN(3) == 0).paused = s.random.IntN(300)
		}
		s.settle()
	}
	s.conclude()
	return s
}

func TestSimulation(t *testing.T) {
	columns := func(l schemas.Link, passes int) schemas.Stage {
		s := stage(l, 0, passes)
		s.Features.Kind = "columns"
		return s
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // there is little that stays
	worlds := []*world{
		newWorld(t, 1<<20, columns(link.Softmax, 2), columns(link.Identity, 1)),
		newWorld(t, 0, columns(link.Softmax, 1), columns(link.Softmax, 2)), // all is read again for each visit
		newWorld(t, 100, columns(link.Calibrated, 2)),                      // some is
	}
	of := func(seed uint64) *world { return worlds[seed%uint64(len(worlds))] }
	if *schedule > 0 {
		s := of(*schedule).disturbed(*schedule, t.Logf)
		for _, p := range s.log.topics[s.topics.Weights][0].messages {
			m := p.Message
			k, _ := keyOf(m)
			t.Logf("@%d %v = %s %v", p.Offset, k, s.bits(m), s.digests[k] == s.bits(m))
		}
		t.Logf("%d moves, %d writes, runs %v: %v", s.moves, s.log.writes, s.ended, s.broken)
		if s.broken != nil {
			t.Fail()
		}
		return
	}
	var next atomic.Uint64
	var running sync.WaitGroup
	var mutex sync.Mutex
	moves, ends, failures := 0, map[string]int{}, 0
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for seed := next.Add(1); seed <= *schedules; seed = next.Add(1) {
				s := of(seed).disturbed(seed, nil)
				mutex.Lock()
				moves += s.moves
				for _, state := range s.ended {
					ends[state]++
				}
				if s.broken != nil {
					if failures++; failures <= 5 {
						t.Errorf("schedule %d: %v (go test ./pipeline -run TestSimulation -schedule %d -v)", seed, s.broken, seed)
					}
				}
				mutex.Unlock()
			}
		})
	}
	running.Wait()
	for _, w := range worlds {
		if err := w.remembered.changed(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d schedules, %d moves, runs that ended %v, %d broken", *schedules, moves, ends, failures)
	if ends[schemas.Done] == 0 || *schedules >= 1000 && (ends[schemas.Failed] == 0 || ends[schemas.Cancelled] == 0) {
		t.Errorf("runs ended %v: the schedules do not cover what they should", ends)
	}
}
