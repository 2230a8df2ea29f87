package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// simChain is what a chain of versions must be, whatever happens while it is made: it is a function of the log.
type simChain struct {
	kinds   []string               // of the versions, in order: full or update
	reports map[string]wire.Digest // what the report of each run says of its version, by lineage
	rows    int64                  // that the runs without faults have learnt or held out
	loses   bool                   // the log loses what the chain stands on: see loseOfChain
}

// newChainScenario returns a scenario whose runs are those of a chain. Like newScenario, it makes the chain without faults first.
func newChainScenario(t testing.TB, examples *simExamples, bytes int64, o topics.RetrainOptions, list ...schemas.Stage) *scenario {
	t.Helper()
	return emptyChainScenario(t, examples, bytes, o, list...).withChain()
}

// joining makes of the scenario of a chain one whose windows have room for few increments.
func (sc *scenario) joining(windowBytes int64) *scenario {
	sc.windowBytes = windowBytes
	return sc
}

// executing makes of the scenario one whose runners, or submitters, execute the runs, as worker and solver in one process.
func (sc *scenario) executing() *scenario {
	sc.executes = true
	return sc
}

// emptyChainScenario returns a scenario whose runs are those of a chain, without the chain that they make without faults.
func emptyChainScenario(t testing.TB, examples *simExamples, bytes int64, o topics.RetrainOptions, list ...schemas.Stage) *scenario {
	t.Helper()
	sc := emptyScenario(t, examples, bytes, list...)
	sc.chain = &simChain{reports: map[string]wire.Digest{}}
	sc.job.Retrain, sc.job.Keep = o, simKeep
	problems := option.Check(topics.RetrainKeys(), o, topics.DefaultRetrain())
	assert.Need(t, len(problems) == 0, "the options of the chain are wrong: %v", problems)
	if sc.job.Topics = topics.DefaultTopics(); o.Decay == 1 {
		sc.job.Topics.State = 1
	}
	return sc
}

// withChain has the scenario make its chain without faults.
func (sc *scenario) withChain() *scenario { return sc.referringTo((*scenario).makeChain) }

// makeChain makes the chain without faults.
func (sc *scenario) makeChain() error {
	s := sc.withoutFaults()
	s.startRoles(1, 1)
	s.startRunners(1)
	s.awaitRuns()
	s.stopActors()
	for _, id := range s.made {
		sc.chain.kinds = append(sc.chain.kinds, s.chained[id])
	}
	s.checkEnd()
	s.check(sc.chain.rows == sc.rows, "the chain has learnt %d rows, expected %d", sc.chain.rows, sc.rows)
	for _, kind := range []string{schemas.RunFull, schemas.RunUpdate} {
		s.check(slices.Contains(sc.chain.kinds, kind), "the chain has the versions %v, none of which is of the kind %s", sc.chain.kinds, kind)
	}
	return s.violation
}

// startRunners starts processes that retrain the pipeline, and assigns the chain to one of them.
func (s *simulation) startRunners(n int) {
	for range n {
		s.runners = append(s.runners, newSimMembership())
		if s.executes {
			s.workers, s.solvers = append(s.workers, newSimMembership()), append(s.solvers, newSimMembership())
		}
	}
	for i := range s.runners {
		s.startRunner(i)
	}
	s.assignAll()
}

func (s *simulation) startRunner(i int) *actor {
	a := s.start(fmt.Sprint("runner ", i), func() { s.startRunner(i) }, func(a *actor) error {
		p, m := s.pipeline(a), s.join(a, s.runners, i)
		defer m.Leave()
		if s.executes { // it joins the other groups when it is the active runner, and they have missed the process before
			s.workers[i].away, s.solvers[i].away = true, true
			s.assignAll()
		}
		join := func(context.Context) (execution, func(), error) {
			execute, leave := s.execution(a, p, i)
			return execute, leave, nil
		}
		job := s.job
		if s.restaged {
			job.Stages = append(slices.Clone(job.Stages), job.Stages[0])
			if s.otherFeatures {
				job.Stages = job.Stages[1:]
				job.Stages[0].Features = rffStage(link.Identity, 4, 1).Features
			}
		}
		if i > 0 {
			job.Examples.Format = "csv" // its plans have other ids, and change no bits
		}
		r := newRunner(p, job, m, simArithmetic, join, nil)
		r.pause = func(ctx context.Context, wait time.Duration) error {
			subscription := p.Log.Subscribe(ctx, nil) // to nothing: others go on until it is late
			defer subscription.Close()
			_, _, err := subscription.Next(ctx, wait)
			return err
		}
		if s.windowBytes > 0 {
			r.windowBytes = s.windowBytes
		}
		if s.chooses {
			r.choose = func(ctx context.Context, plan *schemas.Plan, rows int64) (topics.Job, error) {
				s.log.happen(choosing, "%s chooses stages", a.name)
				return replay.ResolvePlanned(ctx, p, s.process(a), job, plan, rows, nil)
			}
		}
		files, err := source.IngestFiles(context.Background(), p, job, nil)
		if err == nil {
			r.retention = files.Retention
			err = r.run(context.Background(), !s.serves)
		}
		switch {
		case err == nil:
			s.outcomes = append(s.outcomes, schemas.Done)
		case s.dataLost && !s.log.calm: // it is started again
		case !errors.Is(err, errKilled) && !errors.Is(err, errRefused) && !errors.Is(err, errLost):
			s.fail("a runner has ended: %v", err)
		}
		return err
	})
	a.submitter = true
	return a
}

// execution returns how an actor executes runs: with memberships of its own, which it leaves, or by following other processes.
func (s *simulation) execution(a *actor, p *topics.Pipeline, i int) (execute execution, leave func()) {
	if !s.executes {
		return func(ctx context.Context, plan *schemas.Plan, l *protocol.Ledger) (*schemas.Report, error) {
			return dispatch.Follow(ctx, p, plan, l, false, nil)
		}, func() {}
	}
	members := s.members(a, p, i)
	return members.Execute, members.Leave
}

// members returns the memberships of a process that executes its runs itself.
func (s *simulation) members(a *actor, p *topics.Pipeline, i int) *dispatch.Members {
	s.workers[i].away, s.solvers[i].away = true, true // of a process that was killed, as the groups find
	m := &dispatch.Members{Pipeline: p, Process: s.process(a), Cache: visit.NewCache(s.job.Memory), Recorder: nil}
	var works dispatch.Member
	m.JoinWorkers = func() {
		works = s.join(a, s.workers, i)
		m.Works = works
	}
	leave := func(member dispatch.Member) {
		err := member.Leave()
		s.check(err == nil, "%s leaves a group: %v", a.name, err)
	}
	m.LeaveWorkers = func() {
		s.log.happen(leaving, "%s leaves the group of workers", a.name)
		leave(works)
	}
	solves := s.join(a, s.solvers, i)
	m.Solves = solves
	m.JoinWorkers()
	m.Leave = func() {
		leave(works)
		leave(solves)
	}
	return m
}

// simulateChain simulates one schedule of a chain: one or two runners, and up to nine faults, besides those of single calls.
func (s *simulation) simulateChain() {
	s.faultsLeft = s.random.IntN(10)
	s.serves = s.random.IntN(3) == 0 || s.followers
	s.startRunners(1 + s.random.IntN(2))
	if s.followers {
		s.followSource()
	}
	if s.serves {
		s.serveChain()
	}
	s.awaitRuns()
	if s.differs && !s.dataLost && s.violation == nil { // messages may have come after the runners had seen the end
		s.startRunner(0)
		s.awaitRuns()
	}
}

// serveChain lets runners work as services do, which wait for more examples, for some steps. Then they are stopped, and
// started again to go on until the end.
func (s *simulation) serveChain() {
	for steps := s.random.IntN(10_000); steps > 0 && s.violation == nil; steps-- {
		s.goOn()
	}
	if s.serves = false; !s.sparse && s.random.IntN(3) == 0 {
		s.log.happen(restaging, "the runners are started again with another stage")
		s.restaged, s.differs, s.otherFeatures = true, true, s.random.IntN(2) == 0
	}
	for _, a := range s.actors {
		if a.submitter {
			s.log.happen(stop, "%s, which has waited for more examples, is stopped", a.name)
			a.killed, a.paused, a.waits = true, 0, nil
		}
	}
}

// noteChained notes which version of a chain a run makes.
func (s *simulation) noteChained(id string, plan *schemas.Plan) {
	s.chained[id], s.lineages[id] = schemas.RunFull, fmt.Sprintf("version %d of the chain", plan.Chain.Number)
	if plan.Update() != nil {
		s.chained[id] = schemas.RunUpdate
	}
	s.added[id] = plan.Added()
	if slices.ContainsFunc(plan.Chain.Increments, func(c coverage.Increment) bool { return c.Joined > 0 }) {
		s.log.count(joining)
	}
	s.numbers[id] = plan.Chain.Number
	if u := plan.Update(); u != nil && u.Restart {
		s.log.count(restarting)
	}
	if plan.Update().IsLocal() {
		s.solved[id] = true
		s.log.count(solving)
	}
	turn := fmt.Sprint(plan.Chain.Parent, plan.Chain.Attempt)
	if plan.Chain.Parent != nil {
		turn = fmt.Sprint(*plan.Chain.Parent, plan.Chain.Attempt)
	}
	if s.turnOf[turn] != "" && !s.historyLost {
		s.log.happen(overtaking, "run %s has the parent and the attempt of run %s", id, s.turnOf[turn])
		s.ends[id] = schemas.Cancelled
		return
	}
	s.turnOf[turn] = id
}

// noteMade notes that a run of a chain is done for the first time. The versions must come in order, none twice, and none left out.
func (s *simulation) noteMade(id string) {
	if s.chained[id] == "" {
		return
	}
	if s.dataLost {
		s.made = append(s.made, id)
		return
	}
	s.made = append(s.made, id)
	s.check(s.numbers[id] == len(s.made), "run %s has made version %d of the chain after %d others", id, s.numbers[id], len(s.made)-1)
	if s.late != nil && len(s.made) == sealedAfter {
		s.log.happen(lateSeal, "a source is sealed, whose messages version %d has passed over", sealedAfter)
		s.log.topics[s.topics.Plans][0].append(s.late.Message()) // in the offset before the end of the run
	}
	if s.forget != nil && len(s.made) == forgottenAfter {
		s.log.happen(forgetting, "rows are forgotten that version %d has learnt", forgottenAfter)
		s.log.topics[s.topics.Forget][0].append(s.forget.Message())
	}
}

// checkChainReport checks what the report of a run of a chain, a single message, says of its version. Without faults it is learnt.
func (s *simulation) checkChainReport(m wire.Message) {
	id := m.Run()
	r, err := schemas.DecodeJSON[schemas.Report](m)
	if err != nil || r.Retrain == nil {
		s.fail("the report of run %s of a chain says nothing of the chain: %v", id, err)
		return
	}
	of := *r.Retrain
	if of.Seconds = 0; !s.timed {
		of.From, of.Until = 0, 0 // messages without a time are as old as the plan
	}
	got, lineage := wire.DigestJSON(of), s.lineages[id]
	learnt := of.Rows + of.UnknownRows
	if of.Kind == schemas.RunUpdate { // forgotten rows are learnt by none, nor are those that overflow
		learnt += of.Forgotten + of.Overflow
	}
	if of.Kind == schemas.RunUpdate || of.Rows > 0 && s.numbers[id] == 1 { // other full runs measure the window
		learnt += r.Splits[examples.Holdout.String()].Rows
	}
	s.learnt[id] = learnt
	if s.random == nil {
		if s.chain.reports[lineage] == "" {
			s.chain.rows += learnt
		}
		s.chain.reports[lineage] = got
	} else if want := s.chain.reports[lineage]; got != want && !s.dataLost && !s.differs {
		s.fail("the report of run %s (%s) says %+v, which is not what it says without faults", id, lineage, of)
	}
}

// checkForgotten checks that no version is left that has learnt from rows that were forgotten.
func (s *simulation) checkForgotten() {
	p, ctx := s.pipeline(unattended()), context.Background()
	f, err := source.ReadForgotten(ctx, p)
	if err != nil {
		s.fail("%v", err)
		return
	}
	learnt, err := source.HaveLearnt(ctx, p, f)
	s.check(err == nil && len(learnt) == 0 && (len(f.Rows) > 0 || s.forget == nil),
		"forgotten are %v, from which the versions %v have learnt: %v", f.Rows, learnt, err)
}

// checkChain checks that the whole backlog is learnt: the chain has all versions.
func (s *simulation) checkChain() {
	if s.dataLost {
		return
	}
	var added coverage.Spans
	for _, id := range s.made {
		added = append(added, s.added[id]...)
	}
	for n, p := range s.log.topics[s.topics.Examples] {
		for _, m := range p.messages {
			s.check(len((coverage.Spans{{Partition: n, From: m.Offset, To: m.Offset + 1}}).Without(added)) == 0,
				"no run of the chain has added the message [%d]@%d", n, m.Offset)
		}
	}
	if s.restaged && (s.holdout > 0 || s.tested || s.forget != nil) {
		return // the report of a full run that adds rows counts those that are not learnt of the whole window
	}
	if s.differs {
		rows := int64(0)
		for _, id := range s.made {
			rows += s.learnt[id]
		}
		want := s.rows + int64(s.fed)*simRows + s.read
		s.check(rows == want, "the chain has learnt %d rows of the %d that the examples have, which nobody has lost", rows, want)
		return
	}
	var kinds []string
	for _, id := range s.made {
		kinds = append(kinds, s.chained[id])
	}
	s.check(slices.Equal(kinds, s.chain.kinds), "the chain has versions of the kinds %v, without faults %v", kinds, s.chain.kinds)
}

// chainExamples are several messages in each partition, one of which can't be used, and between them those of a source that is sealed late.
func chainExamples() *simExamples {
	e := &simExamples{rows: (2*5 - 1 + 4) * simRows}
	for p := range simPartitions {
		var messages []wire.Message
		for n := range 5 {
			messages = append(messages, simMessage(p, n, schemas.Origin{}))
			if n < 2 {
				messages = append(messages, sourceMessage("late", simPartitions*n+p))
			}
		}
		e.messages = append(e.messages, messages)
	}
	e.messages[1][5] = wire.Message{Value: []byte("no Arrow stream")}
	e.late = &schemas.SourceSeal{
		ID: string(wire.DigestJSON("a source")), Attempt: "late", Files: []string{"late.csv"}, Split: examples.Train.String(),
		Partitions: simPartitions, Messages: 4, Rows: 4 * simRows,
		Spans: coverage.Spans{{Partition: 0, From: 1, To: 4}, {Partition: 1, From: 1, To: 4}},
	}
	return e
}

// sealedAfter is the version of a chain after which the source is sealed that the chain has passed over.
const sealedAfter = 4

// chainOptions make a chain with full runs and updates that visit increments of the past again, and drop them.
func chainOptions() topics.RetrainOptions {
	o := topics.DefaultRetrain()
	o.Rows, o.After, o.Refresh, o.Decay, o.Passes = 2*simRows, 0, 1, 0.5, 1
	o.Window.Increments, o.Full = 2, topics.FullOptions{Every: 2}
	return o
}

// forgetting makes rows of the examples forgotten.
func (e *simExamples) forgetting(rows coverage.Forgotten) *simExamples {
	e.forget = &schemas.Forget{Rows: rows}
	return e
}

// heldOut makes a fraction of the rows held out.
func (e *simExamples) heldOut(fraction float64) *simExamples {
	e.holdout = fraction
	return e
}

var (
	learntByAll = coverage.Forgotten{{Partition: 0, From: 0, To: 1, First: 0, End: 1}, {Partition: 1, From: 2, To: 3}}
	// No full run has read these: the second and the third version have learnt them.
	learntByUpdates = coverage.Forgotten{{Partition: 0, From: 2, To: 3, First: 0, End: 1}, {Partition: 1, From: 0, To: 1}}
)

// forgottenAfter is the version of a chain after which rows are forgotten that it has learnt.
const forgottenAfter = 3

// wideOptions make a chain with a window of many increments.
func wideOptions() topics.RetrainOptions {
	o := chainOptions()
	o.Rows, o.Window, o.Full = simRows, topics.WindowOptions{Increments: 6}, topics.FullOptions{Every: 6}
	return o
}

// joiningOptions make a chain whose state topic has room for few terms, so that full runs join neighbouring increments.
func joiningOptions() topics.RetrainOptions {
	o := chainOptions()
	o.Rows, o.Decay, o.Window, o.Full = simRows, 1, topics.WindowOptions{Increments: 7}, topics.FullOptions{Every: 5}
	return o
}

// A losing chain is one whose log loses what the chain stands on: examples by retention, by an unclean election or with
// their topic; its state; its newest versions; plans. What must hold: whatever was lost, once the faults are over the
// chain learns what is written from then on, and ends. No version is offered that has learnt less than the one before
// it, unless its plan or a version since says that rows have left the window.

// losing makes of the scenario of a chain one whose log loses messages.
func (sc *scenario) losing() *scenario {
	sc.chain.loses = true
	return sc
}

// loseOfChain loses messages that a chain stands on.
func (s *simulation) loseOfChain() {
	t := s.topics
	switch s.random.IntN(6) {
	case 0, 1:
		s.noteLoss(t.Examples)
		s.expire(t.Examples, s.random.IntN(len(s.log.topics[t.Examples])))
	case 2:
		s.cutOff(t.Examples)
	case 3:
		topics := []string{t.State, t.Versions, t.Plans, t.Forget}
		if !s.operators {
			topics = topics[:3] // nobody decides what is forgotten
		}
		s.cutOff(topics[s.random.IntN(len(topics))])
	case 4:
		s.noteLoss(t.State)
		s.log.happen(remaking, "%s is deleted and made anew", t.State)
		s.log.topics[t.State][0].remake()
	case 5:
		s.noteLoss(t.Examples)
		s.log.happen(remaking, "%s is deleted and made anew, with other messages", t.Examples)
		for n, p := range s.log.topics[t.Examples] {
			if p.remake(); n < simPartitions {
				s.feed(n, s.random.IntN(8))
			}
		}
		s.examplesReused = true
	}
}

// cutOff makes a partition of one of the topics lose its last messages, as an unclean election of a leader does.
func (s *simulation) cutOff(topics ...string) {
	topic, n, p := s.drawPartition(topics...)
	if p.end == p.first {
		return
	}
	from := p.end - 1 - s.random.Int64N(min(p.end-p.first, 8))
	s.noteLoss(topic)
	s.log.happen(truncation, "%s[%d] loses what it has from offset %d on, and uses the offsets again", topic, n, from)
	p.truncate(from)
	s.examplesReused = s.examplesReused || topic == s.topics.Examples
}

// feed writes so many messages of another producer to a partition of the examples.
func (s *simulation) feed(partition, messages int) {
	for range messages {
		s.fed++
		p := s.log.topics[s.topics.Examples][partition]
		if p.written == nil {
			p.written = map[int64]int{}
		}
		p.written[p.end] = s.steps
		m := simMessage(partition, 100+s.fed, schemas.Origin{})
		if s.sparse {
			m = sparseMessage(partition, 100+s.fed, simRows)
		}
		if p.append(m); s.timed {
			p.last().Time = s.nextTime()
		}
	}
}

// checkNeverLess checks that no version is offered that has learnt fewer rows than the version that is offered, unless it is said why.
func (s *simulation) checkNeverLess(end *schemas.End) {
	manifest, err := s.pipeline(unattended()).Version(context.Background(), end.Run)
	if err != nil || manifest.Plan.Chain == nil {
		return // it is lost already
	}
	chain := manifest.Plan.Chain
	if u := chain.Update; u != nil && (u.Restart || len(u.Leave) > 0) {
		s.lessIsSaid = true
	}
	if end.Version.Withheld {
		return
	}
	s.check(manifest.WindowRows >= s.offeredRows || s.lessIsSaid || s.historyLost,
		"version %d of %d rows is offered after one of %d, and nobody has said why", manifest.Version, manifest.WindowRows, s.offeredRows)
	s.offeredRows, s.lessIsSaid = manifest.WindowRows, false
}

// checkChainRecovery checks that once the faults are over the chain goes on: it makes versions of what is written then, and ends.
func (s *simulation) checkChainRecovery() {
	s.log.deliver(maxSteps)
	s.log.calm, s.faultsLeft = true, 0
	for n := range simPartitions {
		s.feed(n, 4)
	}
	if s.operators { // the operator decides what is forgotten
		_, err := source.Forget(context.Background(), s.pipeline(unattended()), s.job, source.ToForget{Lost: source.RestoreLost})
		s.check(err == nil || s.said(err), "after the faults an operator can't decide what is forgotten: %v", err)
	}
	before := len(s.made)
	s.serves = false
	s.startRunner(0)
	if s.awaitRuns(); s.violation != nil {
		return
	}
	if len(s.made) == before {
		s.fail("after the faults the chain makes no version")
		return
	}
	p, ctx := s.pipeline(unattended()), context.Background()
	latest, err := p.Version(ctx, protocol.Latest)
	if err != nil {
		l, errLedger := p.ReadLedger(ctx)
		if errLedger == nil && !slices.ContainsFunc(l.Versions(), func(place schemas.Place) bool { return !place.Withheld }) {
			return // the versions that were offered are lost, and the chain has not learnt as much again
		}
		s.fail("after the faults the latest version can't be read: %v", err)
		return
	}
	if s.ordered {
		s.checkForgotten()
	}
	_, err = p.Model(ctx, latest.Run)
	s.check(err == nil, "after the faults version %d can't be read: %v", latest.Version, err)
}

// simNow is the time of the clock of every process, in milliseconds since 1970.
const simNow = 10_000

// simTimes are what producers say of when they have written messages: in the past, nothing (-1 and 0), the same again,
// before what they have written earlier, and next year.
var simTimes = []int64{1000, 2000, -1, 2000, 4000, 0, 3000, 6000, simNow + (365 * 24 * time.Hour).Milliseconds(), 8000}

// gap is so many offsets without a message, behind the message of that index: of transactions that were aborted. The
// markers of transactions leave one offset each.
type gap struct {
	after   int
	offsets int64
}

// simGaps are longer and shorter than what a backlog reads at once, and the last of them ends a partition.
var simGaps = [simPartitions][]gap{{{4, 3 * readAhead}, {6, readAhead}}, {{4, 1}, {5, readAhead + 1}, {6, 1}}}

// addExamples adds the examples of a scenario to their topic.
func (s *simulation) addExamples() {
	for n, messages := range s.messages {
		p := s.log.topics[s.topics.Examples][n]
		for i, m := range messages {
			p.append(m)
			if s.timed {
				p.last().Time = s.nextTime()
			}
			for _, g := range s.gaps[n] {
				if g.after == i {
					p.end += g.offsets
				}
			}
		}
	}
}

// nextTime returns when the next message of a producer says that it was written.
func (s *simulation) nextTime() time.Time {
	s.times++
	return time.UnixMilli(simTimes[s.times%len(simTimes)])
}

// last returns the last message.
func (p *simPartition) last() *protocol.Message { return &p.messages[len(p.messages)-1] }

// abort writes a transaction of a producer to a partition of the examples, and aborts it: its records and its marker
// have offsets, and nobody reads them.
func (s *simulation) abort() {
	topic, n, p := s.drawPartition(s.topics.Examples)
	offsets := []int64{2, readAhead, 1000}[s.random.IntN(3)]
	s.log.happen(abortion, "%s[%d] has %d offsets of an aborted transaction from offset %d on", topic, n, offsets, p.end)
	p.end += offsets
}

// withHoles returns examples of which the log has lost nothing, but whose offsets have gaps, and whose times are wrong.
func (e *simExamples) withHoles() *simExamples {
	e.timed, e.gaps = true, simGaps
	return e
}

// timeOptions make a chain whose window is of a time.
func timeOptions() topics.RetrainOptions {
	o := chainOptions()
	o.Window = topics.WindowOptions{Time: 5 * time.Second}
	return o
}

// manyExamples are so many messages in each partition.
func manyExamples(messages int) *simExamples {
	e := &simExamples{rows: int64(simPartitions * messages * simRows)}
	for p := range simPartitions {
		var list []wire.Message
		for n := range messages {
			list = append(list, simMessage(p, n, schemas.Origin{}))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// driftingExamples are messages whose classes a linear function separates: the label says on which side of 0 the first feature is. In the
// second half of the messages it says the contrary, and in one before also in the rows that are not for tests.
func driftingExamples() *simExamples {
	const messages, rowsOfMessage = 10, 16
	e := &simExamples{rows: simPartitions * messages * rowsOfMessage / 2, tested: true}
	for p := range simPartitions {
		var list []wire.Message
		for n := range messages {
			data := rings(rowsOfMessage, 2, 2, uint64(1000+100*p+n))
			var splits []examples.Split
			for i, row := range data.rows {
				splits = append(splits, []examples.Split{examples.Train, examples.Test}[i%2])
				data.labels[i] = "left"
				if wrong := n == 3 && splits[i] == examples.Train; (row[0] > 0) == (n < messages/2 && !wrong) {
					data.labels[i] = "right"
				}
			}
			rows := data.exampleRows()
			rows.Splits = splits
			list = append(list, examplesMessage(schemas.Origin{}, &rows))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// lateClassExamples are messages of which the first have one class only, and one has a row that overflows.
func lateClassExamples() *simExamples {
	e := &simExamples{rows: simPartitions * 6 * simRows}
	for p := range simPartitions {
		var list []wire.Message
		for n := range 6 {
			rows := rings(simRows, 2, 2, uint64(2000+10*p+n)).exampleRows()
			for i := range rows.Rows {
				if n < 2 {
					rows.Words[i] = "ring0"
				}
			}
			if n == 3 && p == 1 {
				rows.Floats[2] = 3e38
			}
			list = append(list, examplesMessage(schemas.Origin{}, &rows))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// gatedOptions make a chain that offers a version only if its holdout rows say that it is better, and begins again when the stream changes.
func gatedOptions() topics.RetrainOptions {
	o := chainOptions()
	o.Rows, o.Decay, o.Refresh, o.Window, o.Full = 32, 1, 2, topics.WindowOptions{}, topics.FullOptions{Every: 8, Drift: true}
	o.Gate.Margin, o.Gate.Split = 0, examples.Test.String()
	return o
}

// manyOptions make a chain of many increments, which are joined as the state topic has room for few terms.
func manyOptions() topics.RetrainOptions {
	o := joiningOptions()
	o.Window, o.Full = topics.WindowOptions{}, topics.FullOptions{Every: 60}
	return o
}

// simSource is a topic that is followed.
const simSource = "orders"

// simOutcomes is the topic of the outcomes of its rows, if they come later.
const simOutcomes = "refunds"

// simWithin is how long a row waits for its outcome: a step takes a second.
const simWithin = 300 * time.Second

// later makes of the scenario of a followed topic one whose labels come later, on another topic.
func (sc *scenario) later() *scenario {
	sc.labelsLater = true
	return sc
}

// sourcePartitions is how many partitions it has: those of the examples get as many of them as there are.
const sourcePartitions = 3

// followed makes of the scenario of a chain one whose examples also come from a topic, which two processes follow.
func (sc *scenario) followed() *scenario {
	sc.followers = true
	return sc
}

// followSource writes to a topic while two followers and the chain work, then ends it, and waits until all of it is ingested.
func (s *simulation) followSource() {
	s.differs = true
	s.onChanged = []string{ingest.ChangedTopicBehind, ingest.ChangedTopicAnew}[s.random.IntN(2)]
	for range sourcePartitions {
		s.log.addPartition(simSource, s.random.Int64N(3))
	}
	if s.labelsLater {
		for range []int{2, sourcePartitions}[s.random.IntN(2)] {
			s.log.addPartition(simOutcomes, s.random.Int64N(3))
		}
		if s.random.IntN(2) == 0 { // a follower that begins sees how keys are encoded
			for _, topic := range []string{simSource, simOutcomes} {
				s.log.topics[topic][0].append(wire.Message{Key: "no customer", Value: []byte("no number\n")})
				s.log.topics[topic][0].last().Time = s.now()
			}
		}
	}
	for i := range 2 {
		s.startFollower(i)
	}
	for i := range len(s.csv) { // as many processes as files
		s.startIngester(i)
		s.read += simFileRows
	}
	for steps := s.random.IntN(4000); steps > 0 && s.violation == nil; steps-- {
		if s.random.IntN(100) == 0 {
			s.writeSource()
		}
		s.goOn()
	}
	for _, p := range s.log.topics[simOutcomes] { // no row waits
		p.append(wire.Message{Key: "the end"})
		p.last().Time = s.now().Add(2 * simWithin)
	}
	s.ended = true
	for _, a := range s.actors {
		if a.follower {
			a.killed, a.paused, a.waits = true, 0, nil // it is started again to read to the end
		}
	}
	for s.violation == nil && slices.ContainsFunc(s.actors, func(a *actor) bool { return a.follower }) {
		if s.goOn(); s.steps > maxSteps {
			s.fail("a follower has not ended after %d steps", maxSteps)
		}
	}
	if !s.dataLost && s.violation == nil {
		s.checkIngested()
	}
}

// writeSource writes a message of a few rows to the topic that is followed; some can't be used.
func (s *simulation) writeSource() {
	if s.labelsLater && s.random.IntN(2) == 0 {
		s.writeOutcome()
		return
	}
	p := s.log.topics[simSource][s.random.IntN(sourcePartitions)]
	m := wire.Message{Key: fmt.Sprint("customer ", s.random.IntN(3))}
	if s.random.IntN(10) == 0 {
		m.Value = []byte("no number\n")
	} else {
		for range 1 + s.random.IntN(3) {
			s.read++
			if !s.labelsLater {
				m.Value = fmt.Appendf(m.Value, "%s,", []string{"ring0", "ring1"}[s.read%2])
			}
			m.Value = fmt.Appendf(m.Value, "%d,%d\n", s.random.IntN(9), s.read)
		}
	}
	p.append(m)
	p.last().Time = s.now()
	if !s.labelsLater && s.random.IntN(4) == 0 { // who follows recognises the message that was read last, whatever its time
		p.last().Time = []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(simNow)}[s.random.IntN(3)]
	}
}

// writeOutcome writes an outcome of the rows of a customer, or a message that is none.
func (s *simulation) writeOutcome() {
	outcomes := s.log.topics[simOutcomes]
	p := outcomes[s.random.IntN(len(outcomes))]
	m := wire.Message{Key: fmt.Sprint("customer ", s.random.IntN(3)), Value: fmt.Append(nil, "ring", s.random.IntN(2))}
	switch s.random.IntN(10) {
	case 0:
		m.Value = nil
	case 1:
		m.Key = ""
	}
	p.append(m)
	p.last().Time = s.now().Add(-time.Duration(s.random.IntN(100)) * time.Second)
}

// loseOfSource makes the topic that is followed lose messages, or be made anew.
func (s *simulation) loseOfSource() {
	if s.ended || s.log.topics[simSource] == nil {
		return
	}
	s.noteLoss(s.topics.Examples)
	topic := simSource
	if s.labelsLater && s.random.IntN(2) == 0 {
		topic = simOutcomes
	}
	if s.random.IntN(3) == 0 {
		s.log.happen(renewal, "%s is made anew", topic)
		for _, p := range s.log.topics[topic] {
			p.remake()
		}
		return
	}
	_, n, p := s.drawPartition(topic)
	if s.random.IntN(2) == 0 {
		before := p.first + s.random.Int64N(p.end-p.first+1)
		s.log.happen(shortening, "%s[%d] expires before offset %d", topic, n, before)
		p.expire(before)
		return
	}
	if p.end > p.first {
		from := p.end - 1 - s.random.Int64N(min(p.end-p.first, 3))
		s.log.happen(shortening, "%s[%d] loses what it has from offset %d on", topic, n, from)
		p.truncate(from)
	}
}

// simOutcome says how rows wait for outcomes.
func simOutcome() outcome.Options {
	o := outcome.Defaults()
	o.Topic, o.Label, o.Within, o.Early, o.Absent = simOutcomes, "0", simWithin, 10*time.Second, []string{"ring0"}
	return o
}

func (s *simulation) startFollower(i int) {
	var a *actor
	a = s.start(fmt.Sprint("follower ", i), func() {
		_, unusable := errors.AsType[*source.NothingUsableError](a.err) // the topic may have lost all that could be used
		if a.err != nil && !unusable || !s.ended {
			s.startFollower(i)
		}
	}, func(a *actor) error {
		job := s.job
		job.Examples.Train, job.Examples.FromTopic, job.Examples.Format, job.Examples.BatchRows = nil, simSource, "csv", 4
		job.Examples.OnChangedTopic, job.Examples.Partitions = s.onChanged, simPartitions
		if s.labelsLater {
			job.Examples.Outcome = simOutcome()
		}
		p := s.pipeline(a)
		if err := source.CheckSource(context.Background(), p, job); err != nil {
			return err
		}
		if err := topics.Create(context.Background(), p, &job); err != nil {
			return err
		}
		f := source.NewFollow(p, job, s.ended, nil)
		f.Together = func(ctx context.Context, feeds []*source.Feed) error {
			var parts []func() error
			for _, feed := range feeds {
				parts = append(parts, func() error { return feed.Run(ctx) })
			}
			return s.together(a, parts)
		}
		return f.Run(context.Background())
	})
	a.follower = true
}

// checkIngested checks that each row of the topic that is followed counts once, with the label of its outcome.
func (s *simulation) checkIngested() {
	counting, counted := protocol.NewCounting(&schemas.Plan{Foreign: true}), map[[2]int64][]string{}
	for n, p := range s.log.topics[s.topics.Examples] {
		replay := counting.Replay(coverage.Span{Partition: n})
		for _, m := range p.messages {
			if replay.Accept(m.Message) != "" {
				continue
			}
			origins, err := examples.RowOriginsOf(m.Message)
			s.check(err == nil, "%v", err)
			if origins == nil {
				continue
			}
			batch, err := examples.Decode(m.Value, memory.DefaultAllocator)
			if err != nil {
				s.fail("%v", err)
				return
			}
			row := 0
			for _, o := range origins {
				for i := range o.Messages {
					at := [2]int64{int64(o.Partition), o.Offset + int64(i)}
					counted[at] = append(counted[at], batch.Label(row))
					row += o.Rows
				}
			}
		}
	}
	l, err := s.pipeline(unattended()).ReadLedger(context.Background())
	division := l.Division(simSource, 1)
	if s.check(err == nil && division != nil, "the division is %+v, %v", division, err); s.violation != nil {
		return
	}
	for n, p := range s.log.topics[simSource] {
		latest := time.Time{}
		for _, m := range p.messages {
			if latest = later(latest, m.Time); string(m.Value) == "no number\n" {
				continue
			}
			got := counted[[2]int64{int64(n), m.Offset}]
			if delete(counted, [2]int64{int64(n), m.Offset}); len(got) != 1 {
				s.fail("%s[%d]@%d counts %d times, expected once", simSource, n, m.Offset, len(got))
				continue
			}
			want := s.outcomeOf(division.Joined, n, m.Key, latest)
			s.check(!s.labelsLater || got[0] == want, "%s[%d]@%d has the label %s, expected %s", simSource, n, m.Offset, got[0], want)
		}
	}
	s.check(len(counted) == 0, "of %s %v count, and are no rows", simSource, counted)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// outcomeOf returns the label that a row has by its definition: the messages' own times decide.
func (s *simulation) outcomeOf(joined bool, partition int, key string, at time.Time) string {
	o, label, first := simOutcome(), "ring0", time.Time{}
	for n, p := range s.log.topics[simOutcomes] {
		if joined && n != partition {
			continue
		}
		latest := time.Time{}
		for _, m := range p.messages {
			latest = later(latest, m.Time)
			if m.Key == key && len(m.Value) > 0 && !m.Time.Before(at.Add(-o.Early)) && !m.Time.After(at.Add(o.Within)) &&
				!latest.After(at.Add(o.Within+o.Grace)) && (first.IsZero() || latest.Before(first)) {
				first, label = latest, string(m.Value)
			}
		}
	}
	return label
}

// simExamples are the examples of a scenario, and what a run must say of them.
type simExamples struct {
	local     bool                // updates are visited by their solvers
	messages  [][]wire.Message    // by partition
	fromTopic int                 // number of messages of a topic that they are ingested from: see topicExamples; 0: none is
	files     bool                // runs are of the source, as of files; otherwise of everything on the topic
	seal      *schemas.SourceSeal // of the source; nil: there is none
	late      *schemas.SourceSeal // of a source that is sealed while a chain is made; nil: there is none
	forget    *schemas.Forget     // of a chain: rows that are forgotten while it is made; nil: none
	bad       []string            // the keys, on the quarantine topic, of messages that can't be used

	timed bool                 // they say when they were written: see simTimes
	gaps  [simPartitions][]gap // by partition

	holdout float64 // the fraction of the rows that are held out
	tested  bool    // some rows are for tests
	sparse  bool    // rows are sparse: their stages stay what they are

	rows       int64 // that count
	passedOver coverage.PassedOver
}

const (
	simPartitions = 2
	simRows       = 4 // of a message
)

// plainExamples are two messages without headers in each partition.
func plainExamples() *simExamples { return manyExamples(2) }

// ingestedExamples are a source of four messages, one of which is repeated in each partition; messages of attempts at the same source
// that were interrupted; and messages of other producers, one of which has headers of its own and one of which can't be used.
func ingestedExamples(files bool) *simExamples {
	e := &simExamples{files: files}
	const whole = "whole"
	other := simMessage(0, 2, schemas.Origin{})
	other.Key = "shop"
	other.Headers = []wire.Header{{Key: "source", Value: "shop/7"}, {Key: "sequence", Value: "0"}, {Key: "kind", Value: "plan"},
		{Key: "run", Value: "1"}}
	bad := wire.Message{Value: []byte("no Arrow stream")}
	e.messages = [][]wire.Message{
		{sourceMessage("first", 0), sourceMessage(whole, 0), other, sourceMessage(whole, 0), sourceMessage(whole, 2)},
		{sourceMessage("first", 1), sourceMessage(whole, 1), sourceMessage("second", 1), sourceMessage(whole, 3), sourceMessage(whole, 1), bad},
	}
	e.seal = &schemas.SourceSeal{
		ID: string(wire.DigestJSON("a source")), Attempt: whole, Files: []string{"a.csv"}, Split: examples.Train.String(),
		Partitions: simPartitions, Messages: 4, Rows: 4 * simRows,
		Spans: coverage.Spans{{Partition: 0, From: 1, To: 5}, {Partition: 1, From: 1, To: 4}},
	}
	if files {
		e.rows, e.passedOver = 4*simRows, coverage.PassedOver{coverage.OtherProducer: 1, coverage.Repeated: 1, coverage.OtherSource: 1}
		return e
	}
	e.rows, e.passedOver = 5*simRows, coverage.PassedOver{coverage.Repeated: 2, coverage.Unsealed: 3}
	quarantined := schemas.Quarantined{Topic: protocol.TopicsOf(simName).Examples, Partition: 1, Offset: 5}
	e.bad = []string{quarantined.Message().Key}
	return e
}

// simMessage returns a message with simRows rows of its own. It is of another producer if the origin is zero.
func simMessage(partition, number int, origin schemas.Origin) wire.Message {
	rows := rings(simRows, 2, 2, uint64(10*partition+number)).exampleRows()
	return examplesMessage(origin, &rows)
}

// examplesMessage returns the message of rows, which fit into one. Without a source it has only a value.
func examplesMessage(origin schemas.Origin, rows *examples.Rows) wire.Message {
	m, err := origin.Message(rows, memory.DefaultAllocator)
	if err != nil {
		panic(err) // the rows fit into a message
	}
	if origin.Source == "" {
		return wire.Message{Value: m.Value}
	}
	return m
}

// sourceMessage returns the message of the source with that sequence, from an attempt to ingest it.
func sourceMessage(attempt string, sequence int) wire.Message {
	origin := schemas.Origin{Source: string(wire.DigestJSON("a source")), Attempt: attempt, Sequence: int64(sequence)}
	return simMessage(sequence%simPartitions, sequence/simPartitions, origin)
}

// sealed returns the seal of the source, which it ingests again if the topic does not have all of it.
func (s *simulation) sealed(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger) (*schemas.SourceSeal, error) {
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, err
	}
	if seal, err := source.SealOf(ctx, p, l, bounds, s.seal.ID); err != nil || seal != nil {
		return seal, err
	}
	s.log.happen(ingestion, "the source is ingested again")
	seal := *s.seal
	seal.Attempt, seal.Spans = "again "+strconv.Itoa(s.log.writes), make(coverage.Spans, simPartitions)
	for sequence := range int(seal.Messages) {
		span := &seal.Spans[sequence%simPartitions]
		at, err := p.Log.Append(ctx, p.Topics.Examples, sequence%simPartitions, sourceMessage(seal.Attempt, sequence))
		if err != nil {
			return nil, err
		}
		if span.Empty() {
			*span = coverage.Span{Partition: sequence % simPartitions, From: at}
		}
		span.To = at + 1
	}
	_, err = p.Log.Append(ctx, p.Topics.Plans, 0, seal.Message())
	return &seal, err
}

// inSolvers makes updates of the examples small enough for their solvers to visit.
func (e *simExamples) inSolvers() *simExamples {
	e.local = true
	return e
}

// An expiring chain is one whose examples come from a topic, and expire while its processes work, as far as their origins were written.
// Each process makes them again from that topic, or from an archive of it, so nothing is lost: all invariants of a chain hold as without
// expiry.

// topicExamples are examples that are ingested from a topic.
func topicExamples(messages int) *simExamples {
	return &simExamples{rows: int64(2 * messages), fromTopic: messages}
}

// sourceJob returns the job of a process that knows the topic of the examples.
func (s *simulation) sourceJob() topics.Job {
	job := s.job
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format, job.Examples.BatchRows = nil, simSource, "csv", simRows
	job.Examples.Partitions, job.Topics.Retention.Examples = simPartitions, time.Hour
	return job
}

// ingestTopic writes the topic of the examples, and ingests all of it.
func (s *simulation) ingestTopic() {
	for range sourcePartitions {
		s.log.addPartition(simSource, 0)
	}
	s.log.addPartition(s.topics.Origins, 0)
	s.settings[simSource] = map[string]string{}
	for i := range s.fromTopic {
		p := s.log.topics[simSource][i%sourcePartitions]
		p.append(wire.Message{Value: fmt.Appendf(nil, "ring0,%d,%d\nring1,%d,%d\n", i%5, i, i%7+3, i)})
		p.last().Time = time.UnixMilli(int64(i))
	}
	s.log.calm = true
	f := source.NewFollow(s.pipeline(unattended()), s.sourceJob(), true, nil)
	f.Together = func(ctx context.Context, feeds []*source.Feed) error {
		for _, feed := range feeds {
			if err := feed.Run(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	err := f.Run(context.Background())
	s.check(err == nil, "ingest the examples: %v", err)
	s.log.calm = false
}

// remaking makes expired examples again in a process.
func (s *simulation) remaking(p *topics.Pipeline) *topics.Pipeline {
	if s.fromTopic > 0 {
		p.Remade = topics.NewRemade(p.Client, s.sourceJob().Examples, p.Memory)
		p.Log = p.Remade
	}
	return p
}

// actorOf returns the actor that a pipeline is of.
func actorOf(p *topics.Pipeline) *actor {
	log := p.Log
	if p.Remade != nil {
		log = p.Remade.Log
	}
	return log.(actorLog).actor
}

// expireRemade deletes examples that can be made again, so no data is lost.
func (s *simulation) expireRemade() {
	n := s.random.IntN(simPartitions)
	p := s.log.topics[s.topics.Examples][n]
	before := p.first
	for _, m := range p.messages {
		if m.Get("stagewise-rows") != "" && s.random.IntN(4) > 0 {
			before = m.Offset + 1
		}
	}
	s.log.happen(archived, "%s[%d] expires before offset %d, and can be made again", s.topics.Examples, n, before)
	p.expire(before)
}

// loseData loses messages that a run may need. A run that was planned before may then fail.
func (s *simulation) loseData() {
	t := s.topics
	switch s.random.IntN(4) {
	case 0:
		topic, n, p := s.drawPartition(t.Statistics)
		if len(p.messages) == 0 {
			return
		}
		at := s.random.IntN(len(p.messages)) // acknowledged, but only the leader had it, and the leader is gone
		s.noteLoss(topic)
		s.log.happen(loss, "%s[%d]@%d is lost", topic, n, p.messages[at].Offset)
		p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
	case 1:
		topic, n, _ := s.drawPartition(t.Statistics, t.Examples, t.Weights)
		s.noteLoss(topic)
		s.expire(topic, n)
	case 2:
		s.cutOff(t.Examples, t.Residuals, t.Statistics, t.Weights, t.Versions, t.Plans, t.Quarantine)
	case 3:
		topic, _, _ := s.drawPartition(t.Residuals, t.Statistics, t.Weights)
		s.noteLoss(topic)
		s.log.happen(remaking, "%s is deleted and made anew", topic)
		for _, p := range s.log.topics[topic] {
			p.remake()
		}
	}
}

// drawPartition draws one of the topics, and one of its partitions.
func (s *simulation) drawPartition(topics ...string) (topic string, n int, p *simPartition) {
	topic = topics[s.random.IntN(len(topics))]
	n = s.random.IntN(len(s.log.topics[topic]))
	return topic, n, s.log.topics[topic][n]
}

// noteLoss notes that messages of a topic are lost.
func (s *simulation) noteLoss(topic string) {
	s.dataLost, s.lostAt = true, s.steps
	s.examplesChanged = s.examplesChanged || topic == s.topics.Examples || topic == s.topics.Plans && s.seal != nil
	s.historyLost = s.historyLost || topic == s.topics.Plans || topic == s.topics.Versions || topic == s.topics.Weights
}

// aboutTheLog are parts of the reasons why runs fail whose messages are lost.
var aboutTheLog = []string{"no longer holds", "is gone", "the survey had", "no longer on", "no examples on", "were deleted",
	"another message was there when the survey began"}

// checkFailure checks that a run fails only because messages were lost after its plan was begun.
func (s *simulation) checkFailure(end *dispatch.RunError) {
	about := func(text string) bool { return strings.Contains(end.Reason, text) }
	s.oneClass = s.oneClass || s.examplesChanged && about("all examples have the label")
	switch begun := s.begun[end.Run]; {
	case s.giveUp > 0 && about("started the run within"):
	case about("no example has a label") && about("rows are forgotten"): // an operator may have forgotten all
		s.oneClass = true
	case about("warm start: the version of run") && s.removed[s.warm[end.Run]]: // forget --now removes it, whoever is about to start from it
	case !s.dataLost:
		s.fail("run %s failed, though no data was lost: %v", end.Run, end)
	case s.examplesChanged && (about("no examples on") || about("all examples have the label")): // what is left can't be used
	case s.examplesReused && about("train again to ingest the source again"): // only the survey can find it out
	case s.lostAt < begun:
		s.fail("run %s failed, though the last data was lost in step %d, before it was planned in step %d: %v", end.Run, s.lostAt, begun, end)
	case !slices.ContainsFunc(aboutTheLog, about):
		s.fail("run %s failed, but not because data was lost: %v", end.Run, end)
	}
}

// checkRecovery checks that once the faults are over a run is done, whatever was lost before. If the examples topic has nothing left,
// a producer writes again.
func (s *simulation) checkRecovery() {
	s.log.deliver(maxSteps)
	s.log.calm, s.faultsLeft = true, 0
	if s.seal == nil || !s.files {
		s.examplesChanged = true
		s.addExamples()
	}
	before := len(s.outcomes)
	for range 3 { // the first may resume a run that has lost something, and must then fail
		s.submit(1, false, false)
		s.awaitRuns()
		if n := len(s.outcomes); n > before && s.outcomes[n-1] == schemas.Done {
			return
		}
	}
	if s.oneClass {
		return
	}
	s.fail("after the faults no run succeeds: they are %v", s.outcomes[before:])
}

// noteWarm notes what the weights of a run depend on, when its plan is written for the first time: the seed of the run that began
// its chain of warm starts, and how many there were. The ids of runs would not do, as a plan names the manifest of the version that it
// starts from, which has offsets of the schedule.
func (s *simulation) noteWarm(m wire.Message) {
	plan, id, err := protocol.DecodePlan(m)
	if err != nil {
		s.fail("a plan is written that can't be read: %v", err)
		return
	}
	if plan.Warm != nil {
		s.warm[id] = plan.Warm.Run
	}
	if plan.Chain != nil {
		s.noteChained(id, plan)
		return
	}
	lineage := "seed " + strconv.FormatUint(plan.Seed, 10)
	if plan.Warm != nil {
		lineage = s.lineages[plan.Warm.Run] + ", warm"
	}
	if s.examplesChanged || lineage == ", warm" {
		lineage = "" // nobody knows its weights
	}
	s.lineages[id] = lineage
}

// checkVersion checks that the weights of a version are those that it has without faults.
func (s *simulation) checkVersion(m wire.Message) {
	lineage := s.lineages[m.Run()]
	if lineage == "" || s.examplesReused || (s.dataLost || s.differs) && s.chain != nil {
		return
	}
	got, want := s.content(m), s.versionsOf[lineage]
	s.check(got == want, "the version of run %s (%s) has weights %s, without faults %s", m.Run(), lineage, got, want)
}

// prune removes old versions, and checks that none of them is one that an unfinished run starts from.
func (s *simulation) prune(ctx context.Context, p *topics.Pipeline) error {
	needed := map[string]string{}
	for id, version := range s.warm {
		if s.ends[id] == "" && !s.removed[version] {
			needed[id] = version
		}
	}
	err := p.Prune(ctx, simKeep)
	for id, version := range needed {
		s.check(len(s.solvers) != 1 || s.historyLost || s.ends[id] != "" || !s.removed[version],
			"the version of run %s was removed, from which the unfinished run %s starts", version, id)
	}
	return err
}

// warmStart is the version that a submitter starts from; "" starts from nothing.
func (s *simulation) warmStart(ctx context.Context, p *topics.Pipeline, seed uint64) string {
	latest, err := p.Version(ctx, protocol.Latest)
	if err != nil || latest.Plan.Seed != seed {
		return ""
	}
	s.log.count(warming)
	return strconv.Itoa(latest.Version)
}

// Examples of the kinds that the others are not: sparse rows, rows with several labels or with numbers, rows with a
// missing feature, test rows and images.

// kindRows is how many rows a message of them has.
const kindRows = 12

// kindExamples returns two messages in each partition, whose rows change what rings returns.
func kindExamples(columns int, change func(rows *examples.Rows, seed int)) *simExamples {
	e := &simExamples{rows: 4 * kindRows}
	for p := range simPartitions {
		var messages []wire.Message
		for n := range 2 {
			seed := 500 + 10*p + n
			rows := rings(kindRows, columns, 2, uint64(seed)).exampleRows()
			change(&rows, seed)
			messages = append(messages, examplesMessage(schemas.Origin{}, &rows))
		}
		e.messages = append(e.messages, messages)
	}
	return e
}

// sparseExamples have two of eight columns in each row, and holdout rows.
func sparseExamples() *simExamples {
	return kindExamples(2, func(rows *examples.Rows, seed int) { makeSparse(rows, seed, 4) }).heldOut(0.3)
}

// sparseChainExamples have rows like sparseExamples, in ten messages of each partition. Later ones have columns that earlier ones lack.
func sparseChainExamples() *simExamples {
	const messages, rowsOfMessage = 10, 8
	e := &simExamples{rows: simPartitions * messages * rowsOfMessage, sparse: true}
	for p := range simPartitions {
		var list []wire.Message
		for n := range messages {
			list = append(list, sparseMessage(p, n, rowsOfMessage))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

func sparseMessage(partition, number, rowsOfMessage int) wire.Message {
	rows := rings(rowsOfMessage, 2, 2, uint64(700+100*partition+number)).exampleRows()
	makeSparse(&rows, number, 4+number/2)
	return examplesMessage(schemas.Origin{}, &rows)
}

// makeSparse gives each row two columns: one of the first four, and the one that is so many behind it.
func makeSparse(rows *examples.Rows, first, behind int) {
	sparse := &examples.SparseRows{}
	for i := range rows.Rows {
		column := int32((first + i) % 4)
		sparse.Indices = append(sparse.Indices, column, column+int32(behind))
		sparse.Values = append(sparse.Values, rows.Floats[2*i]*rows.Floats[2*i], 1+float32(i%3))
		sparse.Ends = append(sparse.Ends, len(sparse.Indices))
	}
	rows.Floats, rows.Cols, rows.Sparse = nil, 0, sparse
}

// severalExamples have one label or two.
func severalExamples() *simExamples {
	return kindExamples(2, func(rows *examples.Rows, seed int) {
		for i := range rows.Rows {
			rows.LabelLists = append(rows.LabelLists, [][]string{{"right"}, {"up"}, {"right", "up"}}[(seed+i)%3])
		}
		rows.Words = nil
	})
}

// numberExamples have two numbers to predict, and test rows.
func numberExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, _ int) {
		for i := range rows.Rows {
			rows.Targets = append(rows.Targets, float64(rows.Floats[2*i]), float64(rows.Floats[2*i+1]))
			rows.Splits = append(rows.Splits, []examples.Split{examples.Train, examples.Train, examples.Test}[i%3])
		}
		rows.Words = nil
	})
	e.rows = 4 * kindRows * 2 / 3
	return e
}

// missingExamples lack some features, and have test rows and weights. A label of test rows is a class of its own.
func missingExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, seed int) {
		for i := range rows.Rows {
			if (seed+i)%5 == 0 {
				rows.Floats[2*i] = float32(math.NaN())
			}
			rows.Splits = append(rows.Splits, []examples.Split{examples.Train, examples.Train, examples.Test}[i%3])
			rows.Weights = append(rows.Weights, float32(1+i%2))
		}
		rows.Words[5] = "Ring-1" // which no training row has
	})
	e.rows = 4 * kindRows * 2 / 3
	return e
}

// imageExamples have 2 × 2 pixels.
func imageExamples() *simExamples { return kindExamples(4, func(*examples.Rows, int) {}) }

// withJob returns the scenario of a job that is changed.
func (sc *scenario) withJob(change func(*topics.Job)) *scenario {
	change(&sc.job)
	return sc
}
