package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
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
	return emptyChainScenario(t, examples, bytes, o, list...).withChain(t)
}

// joining makes of the scenario of a chain one whose windows have room for few increments.
func (sc *scenario) joining(windowBytes int64) *scenario {
	sc.windowBytes = windowBytes
	return sc
}

// executing makes of the scenario of a chain one whose runners execute the runs, as worker and solver in one process.
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
	if problems := option.Check(topics.RetrainKeys(), o, topics.DefaultRetrain()); len(problems) > 0 {
		t.Fatalf("the options of the chain are wrong: %v", problems)
	}
	if sc.job.Topics = topics.DefaultTopics(); o.Decay == 1 {
		sc.job.Topics.State = 1
	}
	return sc
}

// withChain makes the chain of a scenario without faults.
func (sc *scenario) withChain(t testing.TB) *scenario {
	t.Helper()
	s := sc.simulation(0)
	s.random = nil
	s.log.onWrite = func(topic string, m wire.Message) {
		if isBeside(topic) {
			return
		}
		s.learn(m)
		s.checkWrite(topic, m)
	}
	s.startRoles(1, 1)
	s.startRunners(1)
	s.awaitRuns()
	s.stopActors()
	for _, id := range s.made {
		sc.chain.kinds = append(sc.chain.kinds, s.chained[id])
	}
	if s.checkEnd(); s.violation != nil {
		t.Fatalf("without faults: %v", s.violation)
	}
	if sc.chain.rows != sc.rows {
		t.Fatalf("the chain without faults has learnt %d rows, expected %d", sc.chain.rows, sc.rows)
	}
	for _, kind := range []string{schemas.RunFull, schemas.RunUpdate} {
		if !slices.Contains(sc.chain.kinds, kind) {
			t.Fatalf("the chain without faults has the versions %v, none of which is of the kind %s", sc.chain.kinds, kind)
		}
	}
	return sc
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
		follow := func(ctx context.Context, plan *schemas.Plan, l *protocol.Ledger) (*schemas.Report, error) {
			return dispatch.Follow(ctx, p, plan, l, event.Ignore{})
		}
		join := func(context.Context) (execution, func(), error) { return follow, func() {}, nil }
		if s.executes {
			join = func(context.Context) (execution, func(), error) {
				members := s.members(a, p, i)
				return members.Execute, members.Leave, nil
			}
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
		r := newRunner(p, job, m, simArithmetic, join, event.Ignore{})
		if s.windowBytes > 0 {
			r.windowBytes = s.windowBytes
		}
		if s.chooses {
			r.choose = func(ctx context.Context, plan *schemas.Plan, rows int64) (topics.Job, error) {
				s.log.happen(choosing, "%s chooses stages", a.name)
				return replay.ResolvePlanned(ctx, p, s.process(a), job, plan, rows, event.Ignore{})
			}
		}
		files, err := source.IngestFiles(context.Background(), p, job, event.Ignore{})
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

// members returns the memberships of a runner that executes its runs itself.
func (s *simulation) members(a *actor, p *topics.Pipeline, i int) *dispatch.Members {
	m := &dispatch.Members{Pipeline: p, Process: s.process(a), Cache: visit.NewCache(s.job.Memory), Recorder: event.Ignore{}}
	var works dispatch.Member
	m.JoinWorkers = func() {
		works = s.join(a, s.workers, i)
		m.Works = works
	}
	leave := func(member dispatch.Member) {
		if err := member.Leave(); err != nil {
			s.fail("%s leaves a group: %v", a.name, err)
		}
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
	if s.made = append(s.made, id); s.numbers[id] != len(s.made) {
		s.fail("run %s has made version %d of the chain after %d others", id, s.numbers[id], len(s.made)-1)
	}
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
	if err != nil || len(learnt) > 0 || len(f.Rows) == 0 && s.forget != nil {
		s.fail("forgotten are %v, from which the versions %v have learnt: %v", f.Rows, learnt, err)
	}
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
			if len((coverage.Spans{{Partition: n, From: m.Offset, To: m.Offset + 1}}).Without(added)) > 0 {
				s.fail("no run of the chain has added the message [%d]@%d", n, m.Offset)
			}
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
		if want := s.rows + int64(s.fed)*simRows + s.read; rows != want {
			s.fail("the chain has learnt %d rows of the %d that the examples have, which nobody has lost", rows, want)
		}
		return
	}
	var kinds []string
	for _, id := range s.made {
		kinds = append(kinds, s.chained[id])
	}
	if !slices.Equal(kinds, s.chain.kinds) {
		s.fail("the chain has versions of the kinds %v, without faults %v", kinds, s.chain.kinds)
	}
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

// forgetfulExamples are chainExamples of which rows are forgotten.
func forgetfulExamples() *simExamples {
	e := chainExamples()
	e.forget = &schemas.Forget{Rows: coverage.Forgotten{{Partition: 0, From: 0, To: 1, First: 0, End: 1}, {Partition: 1, From: 2, To: 3}}}
	return e
}

// laterForgottenExamples are chainExamples of which rows are forgotten that no full run has read: the second and the third
// version have learnt them.
func laterForgottenExamples() *simExamples {
	e := chainExamples()
	e.forget = &schemas.Forget{Rows: coverage.Forgotten{{Partition: 0, From: 2, To: 3, First: 0, End: 1}, {Partition: 1, From: 0, To: 1}}}
	return e
}

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

// cutOff makes a partition of a topic lose its last messages, as an unclean election of a leader does.
func (s *simulation) cutOff(topic string) {
	_, n, p := s.drawPartition(topic)
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
	if manifest.WindowRows < s.offeredRows && !s.lessIsSaid && !s.historyLost {
		s.fail("version %d of %d rows is offered after one of %d, and nobody has said why", manifest.Version, manifest.WindowRows, s.offeredRows)
	}
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
		if _, err := source.Forget(context.Background(), s.pipeline(unattended()), s.job,
			source.ToForget{Lost: source.RestoreLost}); err != nil && !s.said(err) {
			s.fail("after the faults an operator can't decide what is forgotten: %v", err)
		}
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
	if _, err := p.Model(ctx, latest.Run); err != nil {
		s.fail("after the faults version %d can't be read: %v", latest.Version, err)
	}
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

// driftingExamples are messages whose classes a linear function separates: the label says on which side of 0 the first
// feature is. In the second half of the messages it says the contrary, and in one before also in the rows that are not
// for tests.
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
