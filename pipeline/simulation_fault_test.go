package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// injectFault makes one fault happen, chosen at random. Faults of single calls are in actorLog.
func (s *simulation) injectFault() {
	if len(s.actors) == 0 { // all runners have ended, and are started again later
		return
	}
	a := s.actors[s.random.IntN(len(s.actors))]
	if a.process != nil {
		a = a.process
	}
	n := s.random.IntN(14)
	switch {
	case s.operators && s.random.IntN(3) == 0:
		n = 12
	case s.fromTopic > 0 && s.random.IntN(4) == 0:
		n = 8
	case s.files && s.random.IntN(2) == 0, s.chain != nil && s.chain.loses && s.random.IntN(3) == 0:
		n = 11
	}
	switch n {
	case 0, 1, 2:
		s.log.happen(kill, "%s is killed", a.name)
		a.killed, a.paused, a.waits = true, 0, nil
	case 3, 4:
		a.paused = 20 + s.random.IntN(400)
		s.log.happen(pause, "%s pauses for %d steps", a.name, a.paused)
	case 5, 6:
		s.log.happen(reassignment, "partitions are assigned again, and some actors are not notified")
		s.reassign(func() bool { return s.random.IntN(2) == 0 })
	case 7:
		s.log.happen(compaction, "plans, versions and state are compacted")
		s.compact(s.steps - oldAge) // see Topics
	case 8:
		if s.fromTopic > 0 {
			s.expireRemade()
			return
		}
		s.expire(s.topics.Residuals, s.random.IntN(simPartitions)) // a worker makes residuals again, so no data is lost
	case 9:
		all := slices.Concat(s.workers, s.solvers, s.runners)
		n := s.random.IntN(len(all))
		s.log.happen(expulsion, "member %d of %d is expelled from its group", n, len(all))
		all[n].lose()
		s.reassign(func() bool { return s.random.IntN(2) == 0 })
	case 10:
		topic := []string{s.topics.Statistics, s.topics.Examples}[s.random.IntN(2)]
		if s.chooses && s.chain == nil {
			topic = s.topics.Statistics // a preparation is chosen by half of the partitions that there are
		}
		if partitions := s.log.topics[topic]; len(partitions) == 2 {
			s.log.happen(growth, "%s gets another partition", topic)
			s.log.addPartition(topic, 0)
			if s.chain != nil && topic == s.topics.Examples && s.random.IntN(2) == 0 {
				s.differs = true
				s.log.count(spreading)
				s.feed(len(partitions), 1+s.random.IntN(5))
			}
		}
	case 12, 13:
		switch {
		case s.retention > 0 && s.random.IntN(2) == 0:
			s.drawSetting(s.random)
		case s.followers && s.random.IntN(3) > 0:
			s.loseOfSource()
		default:
			s.operate()
		}
	case 11:
		switch {
		case s.chain != nil && s.chain.loses && s.random.IntN(4) > 0:
			s.loseOfChain()
		case s.chain != nil && s.random.IntN(2) == 0:
			s.abort()
		case s.chain != nil:
			s.log.happen(reassignment, "each runner takes itself for the active one")
			for _, m := range s.runners {
				m.assign(0)
			}
		case s.files || s.random.IntN(3) == 0:
			s.loseData()
		}
	}
}

// expire deletes the messages of a partition before an offset that it draws.
func (s *simulation) expire(topic string, partition int) {
	p := s.log.topics[topic][partition]
	before := p.first + s.random.Int64N(p.end-p.first+1)
	s.log.happen(expiry, "%s[%d] expires before offset %d", topic, partition, before)
	p.expire(before)
}

// compact compacts versions and state, and what was written on plans up to a step.
func (s *simulation) compact(step int) {
	versions, state, plans := s.log.topics[s.topics.Versions][0], s.log.topics[s.topics.State][0], s.log.topics[s.topics.Plans][0]
	versions.compact(versions.end)
	state.compact(state.end)
	plans.compact(plans.before(step))
}

// A step takes a second by the clock of the processes, but in scenarios whose windows are of a time.
const simStep = time.Second

// now is the clock of every process.
func (s *simulation) now() time.Time {
	now := time.UnixMilli(simNow)
	if s.timed {
		return now
	}
	return now.Add(time.Duration(s.steps) * simStep)
}

// aging makes of the scenario of a chain one whose examples come while it is made, and stay for a while only. Chains
// that are idle, slow or stopped for longer than that lose what they stand on, and what they have not learnt.
func (sc *scenario) aging(retention time.Duration) *scenario {
	sc.retention, sc.job.Topics.Retention.Examples = retention, retention
	return sc.losing()
}

// agingSteps is for how long examples come: then the chain can get to the end of them.
const agingSteps = 10_000

// age writes another message to the examples now and then, and deletes those that are too old.
func (s *simulation) age() {
	if s.retention == 0 || s.log.calm || s.steps > agingSteps {
		return
	}
	if s.random.IntN(200) == 0 {
		s.noteLoss(s.topics.Examples) // sooner or later
		s.feed(s.random.IntN(simPartitions), 1)
	}
	if s.steps%100 > 0 {
		return
	}
	r := topics.RetentionOf(s.settings[s.topics.Examples])
	for _, p := range s.log.topics[s.topics.Examples] {
		if before := p.before(s.steps - int(r.Time/simStep)); before > p.first {
			s.log.happen(aged, "examples expire before offset %d after %v", before, r.Time)
			p.expire(before)
		}
	}
}

// simFileRows is how many rows a file has that is ingested. They are one message: ingest writes to each partition in a
// goroutine of its own, whose order is not that of the schedule.
const simFileRows = 6

// withFiles makes of the scenario of a chain whose topic is followed one whose examples also come from two files, which
// two processes ingest.
func (sc *scenario) withFiles(t testing.TB) *scenario {
	t.Helper()
	for n := range 2 {
		sc.csv = append(sc.csv, rings(simFileRows, 2, 2, uint64(3000+n)).writeCSV(t, t.TempDir(), fmt.Sprint("file", n, ".csv")))
	}
	return sc
}

// startIngester starts a process that ingests the files. It ends once they are sealed, or if an operator has them forgotten.
func (s *simulation) startIngester(i int) {
	var a *actor
	a = s.start(fmt.Sprint("ingester ", i), func() {
		if a.err != nil && !strings.Contains(a.err.Error(), "is forgotten") {
			s.startIngester(i)
		}
	}, func(a *actor) error {
		job, p := s.job, s.pipeline(a)
		job.Examples.Train = s.csv
		log := &handedLog{Log: p.Log, calls: make(chan handedCall)}
		p.Log = log
		return log.serve(func() error {
			_, err := source.IngestFiles(context.Background(), p, job, nil)
			return err
		})
	})
	a.follower = true
}

// handedLog is the log of an actor for what calls it from other goroutines: it hands the calls to the coroutine of the actor.
type handedLog struct {
	protocol.Log
	calls chan handedCall
}

// handedCall is a call, and a channel that is closed when it is made.
type handedCall struct {
	do   func()
	made chan struct{}
}

// serve does something in another goroutine, and makes its calls until it has ended.
func (l *handedLog) serve(do func() error) error {
	ended := make(chan error)
	go func() { ended <- do() }()
	for {
		select {
		case c := <-l.calls:
			c.do()
			close(c.made)
		case err := <-ended:
			return err
		}
	}
}

// call has the coroutine make a call.
func (l *handedLog) call(do func()) {
	c := handedCall{do, make(chan struct{})}
	l.calls <- c
	<-c.made
}

func (l *handedLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (base int64, err error) {
	l.call(func() { base, err = l.Log.Append(ctx, topic, partition, messages...) })
	return base, err
}

func (l *handedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	l.call(func() { first, end, err = l.Log.Bounds(ctx, topic, partition) })
	return first, end, err
}

func (l *handedLog) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	l.call(func() { spans, err = l.Log.Spans(ctx, topic) })
	return spans, err
}

func (l *handedLog) Before(ctx context.Context, topic string, age time.Duration) (offsets []int64, err error) {
	l.call(func() { offsets, err = l.Log.Before(ctx, topic, age) })
	return offsets, err
}

func (l *handedLog) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		next, stop := iter.Pull2(l.Log.Range(ctx, topic, partition, from, to))
		defer stop()
		for {
			var m protocol.Message
			var err error
			var more bool
			l.call(func() { m, err, more = next() })
			if !more || !yield(m, err) {
				return
			}
		}
	}
}

// operated makes of a scenario one in which operators give commands that change something, at any time: they forget
// rows, remove sources and versions, cancel runs and pin versions.
func (sc *scenario) operated() *scenario {
	sc.operators = true
	return sc
}

// givingUp makes of a scenario one whose runs end if nobody takes them up, as those that operators submit: no process has their arithmetic.
func (sc *scenario) givingUp() *scenario {
	sc.giveUp = 2 * time.Hour
	return sc
}

// operate starts an operator, who gives one command.
func (s *simulation) operate() {
	commands := []func(context.Context, *topics.Pipeline) error{s.listRuns, s.listSources, s.attachTo, s.checkTopics, s.countWaiting,
		s.verifyOne, s.verifyOne, s.searchSome}
	if s.operators {
		commands = append(commands, s.submitOne, s.pinOne, s.removeOne, s.cancelOne, s.forgetSome, s.forgetSome, s.removeSource)
	}
	n := s.random.IntN(len(commands))
	s.start(fmt.Sprint("operator ", n), func() {}, func(a *actor) error {
		err := commands[n](context.Background(), s.pipeline(a))
		s.check(err == nil || s.said(err) && err.Error() != "", "an operator's command %d has failed: %v", n, err)
		return err
	})
	s.log.count(command)
}

// said reports whether an error says what is wrong with a command, or with the log.
func (s *simulation) said(err error) bool {
	for _, kind := range []any{
		new(*protocol.NoVersionError), new(*protocol.GoneError), new(*dispatch.UnknownRunError), new(*dispatch.EndedError),
		new(*dispatch.RunError), new(*dispatch.ReportGoneError), new(*topics.RefusedError),
		new(*source.MissingPlanError), new(*replay.MissingExamplesError),
		new(*replay.DigestError), new(*kafkalog.DeletedError), new(*kafkalog.AccessError), new(*source.ForgetLostError),
	} {
		if errors.As(err, kind) {
			return true
		}
	}
	return errors.Is(err, errKilled) || errors.Is(err, source.ErrNothingLost)
}

// changes notes that the versions may be others than without faults, as operators wanted it.
func (s *simulation) changes(format string, values ...any) {
	s.log.happen(order, format, values...)
	s.noteLoss(s.topics.Examples)
	s.ordered, s.lessIsSaid, s.differs = true, true, true
}

func (s *simulation) drawVersion() string {
	if n := len(s.versions); n > 0 && s.random.IntN(3) > 0 {
		return strconv.Itoa(s.versions[s.random.IntN(n)].Version)
	}
	return []string{protocol.Latest, strconv.Itoa(1 + s.random.IntN(8))}[s.random.IntN(2)]
}

func (s *simulation) drawRun() string {
	if len(s.runs) == 0 {
		return "none"
	}
	return s.runs[s.random.IntN(len(s.runs))]
}

func (s *simulation) listRuns(ctx context.Context, p *topics.Pipeline) error {
	d, err := dispatch.Described(ctx, p)
	if err != nil {
		return err
	}
	if _, err = d.Run(ctx, s.drawVersion()); err != nil && !s.said(err) {
		return err
	}
	if _, err = d.Run(ctx, s.drawRun()); err != nil && !s.said(err) {
		return err
	}
	model, err := p.Model(ctx, s.drawVersion())
	if err != nil {
		return err
	}
	if _, err = replay.Mistakes(ctx, p, s.blas, model, 2); err != nil || model.Sparse() || model.Task() == examples.SeveralLabels {
		return err
	}
	rows, split, err := replay.HeldOutRows(ctx, p, model, 3, 1)
	s.check(len(rows) <= 3 && (len(rows) == 0 || split != examples.Train),
		"version %d has %d held-out rows, which are %v rows", model.Manifest.Version, len(rows), split)
	return err
}

func (s *simulation) listSources(ctx context.Context, p *topics.Pipeline) error {
	_, err := source.Sources(ctx, p)
	return err
}

// countWaiting counts the messages of the topic that is followed twice, as whoever ingests it does.
func (s *simulation) countWaiting(ctx context.Context, p *topics.Pipeline) error {
	if s.log.topics[simSource] == nil {
		return nil
	}
	waiting := protocol.NewWaiting(p.Client, simSource)
	for range 2 {
		messages, partitions, err := waiting.Count(ctx, func(int) int64 { return 0 })
		if err != nil {
			return err
		}
		s.check(partitions == sourcePartitions && messages >= 0, "%d messages wait on %d partitions", messages, partitions)
	}
	return nil
}

func (s *simulation) attachTo(ctx context.Context, p *topics.Pipeline) error {
	_, _, err := dispatch.Attach(ctx, p, s.drawRun(), nil)
	return err
}

func (s *simulation) checkTopics(ctx context.Context, p *topics.Pipeline) error {
	job := s.job
	job.Name, job.Examples.Partitions = simName, simPartitions
	if err := topics.CreateTopics(ctx, p, job, nil); err != nil {
		return err
	}
	settings, err := topics.ReadSettings(ctx, p, job)
	if err != nil || s.retention > 0 { // else it would end the changes
		return err
	}
	_, err = topics.Apply(ctx, p.Admin, settings.Differences)
	return err
}

func (s *simulation) submitOne(ctx context.Context, p *topics.Pipeline) error {
	if s.chain != nil || s.files {
		return nil
	}
	s.changes("a run is submitted")
	_, err := dispatch.SubmitJob(ctx, p, s.blas, s.job, &source.Ingested{}, dispatch.TrainOptions{Trigger: s.random.IntN(2) == 0},
		nil)
	return err
}

func (s *simulation) pinOne(ctx context.Context, p *topics.Pipeline) error {
	s.changes("a version is pinned, or none")
	if s.random.IntN(2) == 0 {
		_, _, err := topics.Unpin(ctx, p)
		return err
	}
	_, err := topics.Pin(ctx, p, s.drawVersion())
	return err
}

func (s *simulation) removeOne(ctx context.Context, p *topics.Pipeline) error {
	s.changes("versions are removed")
	_, err := topics.RemoveVersions(ctx, p, []string{s.drawVersion(), s.drawVersion()}, s.random.IntN(2) == 0)
	return err
}

func (s *simulation) cancelOne(ctx context.Context, p *topics.Pipeline) error {
	s.changes("runs are cancelled")
	id := ""
	if s.random.IntN(2) == 0 {
		id = s.drawRun()
	}
	_, err := dispatch.Cancel(ctx, p, id)
	return err
}

func (s *simulation) forgetSome(ctx context.Context, p *topics.Pipeline) error {
	_, n, examples := s.drawPartition(s.topics.Examples)
	what := source.ToForget{Now: s.random.IntN(2) == 0, Lost: []string{"", "", "", source.RestoreLost, source.DropLost}[s.random.IntN(5)]}
	at := s.drawOffset(examples)
	switch s.random.IntN(4) {
	case 0:
		what.Keys = []string{"shop"}
	case 1:
		if s.seal != nil {
			what.Sources = []string{s.seal.ID[:6]}
		} else {
			what.Rows = coverage.Forgotten{{Partition: n, From: at, To: at + 1, First: 1, End: 2}}
		}
	case 2:
		if partitions := s.log.topics[simSource]; partitions != nil {
			n = s.random.IntN(len(partitions))
			at = s.drawOffset(partitions[n])
		}
		what.Read = []source.SourceRows{{Topic: simSource, Span: coverage.Span{Partition: n, From: at, To: at + 1 + s.random.Int64N(3)}}}
		if s.random.IntN(2) == 0 {
			what.Keys = []string{"customer 1"}
		}
	case 3:
		what.Rows = coverage.Forgotten{{Partition: n, From: at, To: at + 1 + s.random.Int64N(2)}}
	}
	s.changes("rows are forgotten: %+v", what)
	_, err := source.Forget(ctx, p, s.job, what)
	return err
}

// drawOffset returns an offset that a partition has, or its end.
func (s *simulation) drawOffset(p *simPartition) int64 {
	if n := len(p.messages); n > 0 && s.random.IntN(8) > 0 {
		return p.messages[s.random.IntN(n)].Offset
	}
	return p.end
}

func (s *simulation) removeSource(ctx context.Context, p *topics.Pipeline) error {
	id := "none"
	if s.seal != nil {
		id = s.seal.ID
	}
	s.changes("a source is removed")
	_, err := source.RemoveSources(ctx, p, []string{id})
	return err
}

// simAdmin is the cluster as one actor sees it.
type simAdmin struct {
	actorLog
	settings map[string]map[string]string // of topics
}

// simSettings returns the settings of topics.
func simSettings(job topics.Job) map[string]map[string]string {
	job.Name, job.Examples.Partitions = simName, simPartitions
	settings := map[string]map[string]string{}
	for _, topic := range topics.Topics(job) {
		settings[topic.Name] = simConfig(topic)
	}
	return settings
}

// simConfig returns the settings of a topic that is created.
func simConfig(topic kafkalog.Topic) map[string]string {
	config := maps.Clone(topic.Config)
	if topic.Compact {
		config["cleanup.policy"] = "compact"
	}
	return config
}

// errDenied is why the cluster does not tell the settings of topics.
var errDenied = errors.New("this process may not describe topics")

func (s simAdmin) Configs(ctx context.Context, topics ...string) (map[string]map[string]string, error) {
	if err := s.giveWay(ctx); err != nil {
		return nil, err
	}
	if s.chance(0.05) {
		s.count(denial)
		return nil, &kafkalog.AccessError{Err: errDenied, Check: "the ACLs"}
	}
	found := map[string]map[string]string{}
	for _, topic := range topics {
		if s.settings[topic] == nil {
			return nil, fmt.Errorf("describe %s: %w", topic, kafkalog.ErrUnknownTopic)
		}
		found[topic] = s.settings[topic]
	}
	return found, nil
}

func (s simAdmin) Create(ctx context.Context, topics ...kafkalog.Topic) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	for _, topic := range topics {
		for len(s.topics[topic.Name]) == 0 || len(s.topics[topic.Name]) < topic.Partitions && s.settings[topic.Name] == nil {
			s.addPartition(topic.Name, 0)
		}
		if isBeside(topic.Name) {
			s.settings[topic.Name] = simConfig(topic)
		}
	}
	return nil
}

func (s simAdmin) AddPartitions(ctx context.Context, topic string, partitions int) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	for len(s.topics[topic]) < partitions {
		s.addPartition(topic, 0)
	}
	return nil
}

func (s simAdmin) Delete(ctx context.Context, topics ...string) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	for _, topic := range topics {
		delete(s.topics, topic)
		if isBeside(topic) {
			delete(s.settings, topic)
		}
	}
	return nil
}

func (s simAdmin) Compact(ctx context.Context, topics ...string) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	for _, topic := range topics {
		for _, p := range s.topics[topic] {
			p.compact(p.end)
		}
	}
	return nil
}

func (s simAdmin) Topics(ctx context.Context, prefix string) (found []kafkalog.Topic, err error) {
	if err := s.giveWay(ctx); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		if strings.HasPrefix(name, prefix) {
			found = append(found, kafkalog.Topic{Name: name, Partitions: len(s.topics[name]), Config: s.settings[name]})
		}
	}
	return found, nil
}

func (s simAdmin) OffsetsAt(ctx context.Context, topic string, at time.Time) (offsets []int64, err error) {
	if err := s.giveWay(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.topics[topic] {
		offset := p.end
		for _, m := range slices.Backward(p.messages) {
			if !m.Time.Before(at) {
				offset = m.Offset
			}
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func (s simAdmin) Embedded() bool                                                 { return false }
func (s simAdmin) Uncommitted(context.Context, string) ([]kafkalog.Bounds, error) { return nil, nil }

func (s simAdmin) IsEmbedded(ctx context.Context) (bool, error) { return false, s.giveWay(ctx) }

func (s simAdmin) Members(ctx context.Context, group string) ([]string, error) {
	return []string{group}, s.giveWay(ctx)
}

func (s simAdmin) Settings(t kafkalog.Topic) map[string]string { return simConfig(t) }

func (s simAdmin) Configure(ctx context.Context, topic string, settings map[string]string) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	config := maps.Clone(s.settings[topic])
	maps.Copy(config, settings)
	s.settings[topic] = config
	return nil
}

// Join is not called: actors have their memberships from the simulation.
func (s simAdmin) Join(string, string) *kafkalog.Member {
	panic("an actor joins a group of the simulation")
}

// JoinGroups is not called either.
func (s simAdmin) JoinGroups(string, string, func(int) int) *kafkalog.Member {
	panic("an actor joins a group of the simulation")
}

// drawSetting changes how long the examples stay.
func (s *simulation) drawSetting(random *rand.Rand) {
	retention := s.retention * time.Duration(1+random.IntN(4)) / 2
	s.log.happen(setting, "retention.ms of %s is set to %v", s.topics.Examples, retention)
	config := maps.Clone(s.settings[s.topics.Examples])
	config["retention.ms"] = topics.Milliseconds(retention)
	if random.IntN(3) == 0 {
		config["retention.bytes"], config["segment.bytes"] = "1000", "100"
	}
	s.settings[s.topics.Examples] = config
}

// isBeside reports whether a topic is beside those of the pipeline: of a version that is made again, or of a search.
func isBeside(topic string) bool {
	return topics.IsBeside(simName, topic)
}

// verifyOne makes a version again while others work, and checks what it finds: the same weights, or what the log has lost of it.
func (s *simulation) verifyOne(ctx context.Context, p *topics.Pipeline) error {
	a := actorOf(p)
	a.awaited = true
	return s.verify(ctx, p, s.process(a), s.drawVersion())
}

// verify makes a version again, and checks what it finds.
func (s *simulation) verify(ctx context.Context, p *topics.Pipeline, by dispatch.Process, version string) error {
	job := s.job
	job.Name, job.Memory = simName, max(job.Memory, 1)
	same, err := replay.Verify(ctx, p, by, job, version, nil)
	if err == nil {
		s.log.happen(verification, "version %s is made again: %+v", version, same)
	}
	s.checkVerified(same, err)
	return err
}

// verifyAfter makes a version again once the faults are over. Nothing has been lost of it, unless it was before.
func (s *simulation) verifyAfter() {
	s.log.calm, s.faultsLeft = true, 0
	version := s.drawVersion()
	s.start("auditor", func() {}, func(a *actor) error {
		a.awaited = true
		err := s.verify(context.Background(), s.pipeline(a), s.process(a), version)
		s.check(s.explained(err), "after the faults version %s can't be made again: %v", version, err)
		return err
	})
	s.awaitRuns()
}

// explained reports whether an error says what was lost, or that there is no version.
func (s *simulation) explained(err error) bool {
	return err == nil || s.said(err) && !errors.As(err, new(*kafkalog.AccessError))
}

// checkVerified checks what came of making a version again.
func (s *simulation) checkVerified(same []replay.Verified, err error) {
	differs, isOther := errors.AsType[*replay.DigestError](err)
	missing, isMissing := errors.AsType[*replay.MissingExamplesError](err)
	plan, isMissingPlan := errors.AsType[*source.MissingPlanError](err)
	ended, isEnded := errors.AsType[*dispatch.RunError](err)
	lost := s.examplesReused || s.dataLost && s.examplesChanged
	switch {
	case err == nil && len(same) == 0:
		s.fail("a version was made again, and nobody knows which")
	case isOther && differs.Uncompared != nil && !s.explained(differs.Uncompared): // such as that the version was removed meanwhile
		s.fail("nothing is lost of the version: %v", err)
	case isOther && (len(differs.Changed) == 0 && differs.Uncompared == nil || !s.examplesReused):
		s.fail("no example was replaced: %v", err)
	case isOther:
		s.log.happen(unverified, "%v", err)
		s.checkGone(differs.Changed, err)
	case isMissing && !lost:
		s.fail("no example is lost: %v", err)
	case isMissing:
		s.log.happen(unverified, "%v", err)
		s.checkGone(missing.Spans, err)
	// The plan of a warm start is in the manifest of its version, and for a day on plans. Chains keep theirs for longer.
	case isMissingPlan && !s.historyLost && (!s.removed[plan.Run] || s.chained[plan.Run] != ""):
		s.fail("no plan is lost: %v", err)
	case isEnded && (ended.State != schemas.Failed || !lost || !slices.ContainsFunc(aboutTheLog, func(text string) bool {
		return strings.Contains(ended.Reason, text)
	})):
		s.fail("a version can't be made again, and no example is lost: %v", err)
	case isEnded:
		s.log.happen(unverified, "%v", err)
	}
}

// checkGone checks of each span that the examples topic does not have all of it as it was.
func (s *simulation) checkGone(spans coverage.Spans, err error) {
	for _, span := range spans {
		partitions := s.log.topics[s.topics.Examples]
		if span.Partition >= len(partitions) {
			s.fail("there is no partition %d: %v", span.Partition, err)
			continue
		}
		p := partitions[span.Partition]
		s.check(span.From < p.first || span.To > p.end || p.reuses && span.To > p.reused, "the examples of %v are all there: %v", span, err)
	}
}

// searchSome trains jobs beside the pipeline while others work. The weights are those of runs of the pipeline.
func (s *simulation) searchSome(ctx context.Context, p *topics.Pipeline) error {
	if s.chain != nil || s.files || s.chooses {
		return nil
	}
	a := actorOf(p)
	a.awaited = true
	jobs := []topics.Job{s.job, s.job}
	jobs[1].Seed, jobs[0].Name, jobs[1].Name = 2, simName, simName
	jobs[0].Memory = max(s.job.Memory, 1)
	folds := []int{0, 0, 2}[s.random.IntN(3)]
	check := func(i int, c *replay.Candidate) error {
		s.log.happen(searching, "a run of a search with the seed %d ends: %v", jobs[i].Seed, c.Err)
		lost := s.dataLost || s.examplesChanged || s.examplesReused
		switch want := s.versionsOf[fmt.Sprint("seed ", jobs[i].Seed)]; {
		case c.Report == nil && !lost && folds == 0:
			s.fail("a run of a search has failed, and nothing is lost: %v", c.Err)
		case c.Report != nil && !lost && folds == 0 && want != c.Report.WeightsDigest:
			s.fail("a run of a search has the weights %s, without faults %s", c.Report.WeightsDigest, want)
		}
		return nil
	}
	return replay.SearchIngested(ctx, p, s.process(a), jobs, &source.Ingested{}, folds, nil, check)
}

// choosing makes of a scenario one whose stages are chosen, of a chain by its first version, or one whose runs choose how sparse rows are
// prepared.
func (sc *scenario) choosing() *scenario {
	sc.chooses = true
	return sc
}

// ending returns a stage that a run may leave out, by the loss of held-out rows.
func ending(s schemas.Stage) schemas.Stage {
	s.Stop = &schemas.Stop{Split: examples.Holdout.String(), Patience: 1, Stages: true}
	return s
}

// recordKey identifies a record. Of a manifest's identity, only kind and run are set.
type recordKey struct{ wire.Identity }

func (k recordKey) String() string {
	if k.Kind == schemas.KindManifest {
		return "manifest of run " + k.Run
	}
	return fmt.Sprintf("%v with parent %s", k.Identity, k.Parent.Short())
}

// keyOf returns the key of a message's record, and whether that record must have the same content whoever writes it.
func keyOf(m wire.Message) (key recordKey, fixed bool) {
	if m.Value == nil {
		return recordKey{}, false // a tombstone
	}
	switch m.Kind() {
	case statistics.KindVisit, statistics.KindGram, statistics.KindLeave, statistics.KindSample, statistics.KindSeal, statistics.KindPrepare,
		schemas.KindWeights, schemas.KindStructure, statistics.KindTerms, statistics.KindMoments:
		id, err := wire.IdentityOf(m)
		return recordKey{id}, err == nil
	case schemas.KindManifest:
		return recordKey{wire.Identity{Kind: schemas.KindManifest, Run: m.Run()}}, true
	}
	return recordKey{}, false
}

// content returns a digest of what must be the same in a record whoever writes it. The offsets in a seal may differ, so its
// rows and scores count. The times in a manifest may differ, so its weights count.
func (sc *scenario) content(m wire.Message) wire.Digest {
	switch m.Kind() {
	case statistics.KindSeal:
		return wire.Digest(m.Get("rows") + "/" + m.Get("scores"))
	case schemas.KindManifest:
		manifest, err := protocol.DecodeManifest(m)
		if err != nil {
			return wire.Digest(err.Error())
		}
		return manifest.WeightsDigest
	}
	return m.Digest()
}

// learn adds a message that was written without faults to the reference.
func (s *simulation) learn(m wire.Message) {
	if m.Kind() == schemas.KindPlan {
		if _, id, err := protocol.DecodePlan(m); err == nil && s.warm[id] == "" && s.chained[id] == "" {
			s.planned[id] = true
		}
	}
	if m.Kind() == schemas.KindManifest {
		s.versionsOf[s.lineages[m.Run()]] = s.content(m) // for checkVersion
	}
	if key, fixed := keyOf(m); fixed {
		if before, known := s.reference[key]; known && before != s.content(m) {
			s.fail("%v has content %s, by other workers %s", key, s.content(m), before)
		}
		s.reference[key] = s.content(m)
	}
}

// note notes which runs were submitted, how they ended, and which versions there are, as the order of the writes has it.
func (s *simulation) note(m wire.Message) {
	var end *schemas.End
	if m.Kind() == schemas.KindEnd {
		end, _ = schemas.DecodeJSON[schemas.End](m)
	}
	switch {
	case m.Kind() == schemas.KindPlan && m.Value != nil && !slices.Contains(s.runs, m.Run()):
		s.runs = append(s.runs, m.Run())
		s.noteWarm(m)
	case m.Value == nil && strings.HasPrefix(m.Key, string(schemas.KindManifest)+"/"):
		s.leaving[strings.Split(m.Key, "/")[1]] = true
	case m.Kind() == schemas.KindRemoval:
		s.versions = slices.DeleteFunc(s.versions, func(p schemas.Place) bool { return p.Run == m.Run() })
		s.removed[m.Run()] = true
		if removal, err := schemas.DecodeJSON[schemas.Removal](m); err != nil {
			s.fail("%v", err)
		} else {
			s.removedRuns[removal.Version] = removal.Run
		}
	case end != nil:
		states, state := []string{"", schemas.Failed, schemas.Cancelled, schemas.Done}, end.State
		taken := func(p schemas.Place) bool { return p.Version == end.Version.Version }
		others := func(p schemas.Place) bool { return taken(p) && p.Run != end.Run }
		again := false // another run has made the version with that number
		if end.Version != nil {
			removed := s.removedRuns[end.Version.Version]
			again = slices.ContainsFunc(s.versions, others) || removed != "" && removed != end.Run
		}
		if again {
			state = schemas.Cancelled
		}
		s.check(state != schemas.Failed || s.chained[end.Run] == "" || s.dataLost,
			"run %s of the chain failed, though no data was lost: %s", end.Run, end.Reason)
		if state == schemas.Done && s.ends[end.Run] != state {
			s.noteMade(end.Run)
			if s.chain != nil && s.chain.loses && end.Version != nil {
				s.checkNeverLess(end)
			}
		}
		s.ends[end.Run] = states[max(slices.Index(states, s.ends[end.Run]), slices.Index(states, state))]
		if end.Version == nil {
			return
		}
		if s.places[*end.Version] = true; end.Version.Withheld {
			s.log.count(withholding)
		}
		if !again && !s.removed[end.Run] && !slices.ContainsFunc(s.versions, taken) {
			s.versions = append(s.versions, *end.Version)
		}
	}
}

// checkWrite checks that a message that is written has the content that it has without faults.
func (s *simulation) checkWrite(topic string, m wire.Message) {
	if isBeside(topic) {
		return // whoever made the topic compares the versions
	}
	if topic == s.topics.Examples {
		s.examplesChanged = true
		return
	}
	s.note(m)
	if m.Kind() == schemas.KindReport && s.chained[m.Run()] != "" {
		s.checkChainReport(m)
	}
	if topic == s.topics.Quarantine {
		s.quarantined[m.Key] = true
		s.log.count(quarantining)
	}
	key, fixed := keyOf(m)
	if !fixed {
		return
	}
	if key.Kind == statistics.KindVisit && (s.solved[key.Run] || key.Partition%s.job.Group > 0) {
		s.fail("%v is written: expected one record a share, and none of an update that its solver visits", key)
	}
	if s.examplesReused && (key.Stage == wire.Survey && (key.Kind != statistics.KindPrepare || s.local) || s.chain != nil &&
		key.Kind == statistics.KindGram) {
		// The first survey counts, or, where solvers visit the rows, the first result of one, and later visits hold to it. Gram matrices
		// do not say which rows they are of.
		return
	}
	if key.Kind == schemas.KindManifest {
		s.checkVersion(m)
	}
	_, known := s.reference[key]
	// In the reference of a chain one worker owns all partitions.
	divided := s.chain != nil && !known && slices.Contains([]wire.Kind{statistics.KindVisit, statistics.KindGram, statistics.KindSample,
		statistics.KindLeave, statistics.KindSeal}, key.Kind)
	if s.examplesReused || divided || !s.planned[key.Run] && (s.examplesChanged || s.warm[key.Run] != "" || s.chained[key.Run] != "") {
		if first, known := s.others[key]; !known {
			s.others[key] = s.content(m)
		} else if got := s.content(m); got != first {
			s.fail("%s: %v has content %s, it had %s", topic, key, got, first)
		}
		return
	}
	if want, known := s.reference[key]; !known {
		s.fail("%s: %v is written, which no run writes without faults", topic, key)
	} else if got := s.content(m); got != want {
		s.fail("%s: %v has content %s, without faults %s", topic, key, got, want)
	}
}

// checkReport checks the report of a run that is done.
func (s *simulation) checkReport(id string, r *schemas.Report) {
	if s.chained[id] != "" {
		return // it was checked when it was written: later runs may have removed it
	}
	if s.examplesReused || !s.planned[id] && s.examplesChanged {
		return // it is of other examples
	}
	rows := r.Rows + r.Splits[examples.Holdout.String()].Rows
	s.check(rows == s.rows && maps.Equal(r.PassedOver, s.passedOver) && r.Quarantined == int64(len(s.bad)),
		"the report of run %s has %d rows, passed over %v and quarantined %d; expected %d, %v and %d",
		id, rows, r.PassedOver, r.Quarantined, s.rows, s.passedOver, len(s.bad))
	s.checkStages(id, r)
	for _, key := range s.bad {
		s.check(s.quarantined[key], "run %s is done, but %s was not put into quarantine", id, key)
	}
}

// checkStages checks that the report of a run says of its stages what it says without faults, whoever finished them.
func (s *simulation) checkStages(id string, r *schemas.Report) {
	for i := range r.Stages {
		r.Stages[i].Seconds = 0
	}
	switch got, lineage := string(wire.JSON(r.Stages)), s.lineages[id]; {
	case s.random == nil:
		s.reportsOf[lineage] = got
	case lineage != "" && s.planned[id] && got != s.reportsOf[lineage]:
		s.fail("the report of run %s (%s) says of its stages %s, without faults %s", id, lineage, got, s.reportsOf[lineage])
	}
}

// checkEnd checks what must hold once all actors have stopped: the ledger has the runs and versions that were written, and no run that
// has ended goes on; each run that is done has a report, and a version unless newer ones have replaced it; compaction changes nothing
// of that; each version can be read, and the latest has the highest number.
func (s *simulation) checkEnd() {
	if s.historyLost {
		return
	}
	if s.chain != nil {
		s.checkChain()
	}
	p, ctx := s.pipeline(unattended()), context.Background()
	history, err := p.ReadLedger(ctx)
	if err != nil {
		s.fail("before compaction: %v", err)
		return
	}
	s.checkLedger()
	s.compact(s.steps)
	s.checkLedger()
	manifests, err := p.Versions(ctx)
	s.check(err == nil, "%v", err)
	done := 0
	for id, state := range s.ends {
		if state != schemas.Done {
			continue
		}
		done++
		if history.Plan(id) == nil || history.End(id) == nil {
			continue // it is too old
		}
		if end, chain := history.End(id), history.Plan(id).Chain; chain != nil && end.Attempt == "" && chain.Number < history.Chained().Number {
			continue // it is too old too: its end was removed with its version, and a copy of its plan came late, which counts as cancelled
		}
		report, err := dispatch.Follow(ctx, p, history.Plan(id), history, false, nil)
		if (s.removed[id] || s.leaving[id]) && errors.As(err, new(*dispatch.ReportGoneError)) {
			continue // the report went with the version
		}
		if err != nil {
			s.fail("run %s is done, but has no report: %v", id, err)
		} else {
			s.checkReport(id, report)
		}
	}
	least := min(done, simKeep)
	if s.ordered {
		least = 0
	}
	if s.forget != nil {
		least = 1
		s.checkForgotten()
	}
	s.check(len(manifests) >= least && len(manifests) <= done, "%d runs are done, but there are %d versions", done, len(manifests))
	latest, err := p.Version(ctx, protocol.Latest)
	newer := func(m protocol.Finished) bool { return m.Version > latest.Version && m.Offered }
	s.check(len(manifests) == 0 || s.ordered || err == nil && !slices.ContainsFunc(manifests, newer), "the latest is %+v, %v", latest, err)
	for _, m := range manifests {
		model, err := p.Model(ctx, m.Run)
		if s.leaving[m.Run] && protocol.IsIncomplete(err) {
			continue // its removal was interrupted, and another solver's copy of the manifest is left: the next removal repeats it
		}
		if err != nil {
			s.fail("version %d: %v", m.Version, err)
		} else if model.Digest() != m.WeightsDigest {
			s.fail("version %d has digest %s, its manifest says %s", m.Version, model.Digest(), m.WeightsDigest)
		}
	}
}

// checkLedger checks that the ledger has the unfinished runs and the versions that were written.
func (s *simulation) checkLedger() {
	l, err := s.pipeline(unattended()).ReadLedger(context.Background())
	if err != nil {
		s.fail("read the ledger: %v", err)
		return
	}
	damaged := &eventRecorder{}
	l.Report(damaged.Record)
	s.check(len(damaged.events) == 0, "plans has damaged messages: %v", damaged.events)
	unfinished := slices.Collect(maps.Keys(maps.Collect(l.Unfinished())))
	for _, id := range s.runs {
		s.check(slices.Contains(unfinished, id) == (s.ends[id] == ""),
			"run %s has end %q, but the ledger has the unfinished runs %v", id, s.ends[id], unfinished)
		end := l.End(id)
		s.check(end == nil || l.Plan(id) == nil || end.State == s.ends[id], "the ledger has end %+v of run %s, which is %s", end, id, s.ends[id])
	}
	// If two solvers have published a version, compaction may let the other one's end be the first.
	same := func(a, b schemas.Place) bool { return a.Version == b.Version && a.Run == b.Run && s.places[a] }
	s.check(slices.EqualFunc(l.Versions(), s.versions, same),
		"the ledger has the versions %v, those that were made and not removed are %v", l.Versions(), s.versions)
}
