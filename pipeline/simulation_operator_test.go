package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
		p := s.pipeline(a)
		err := commands[n](context.Background(), p)
		if err != nil && (!s.said(err) || err.Error() == "") {
			s.fail("an operator's command %d has failed: %v", n, err)
		}
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
	if len(rows) > 3 || len(rows) > 0 && split == examples.Train {
		s.fail("version %d has %d held-out rows, which are %v rows", model.Manifest.Version, len(rows), split)
	}
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
	waiting := protocol.NewWaiting(p.Log, simSource)
	for range 2 {
		messages, partitions, err := waiting.Count(ctx, func(int) int64 { return 0 })
		if err != nil {
			return err
		}
		if partitions != sourcePartitions || messages < 0 {
			s.fail("%d messages wait on %d partitions", messages, partitions)
		}
	}
	return nil
}

func (s *simulation) attachTo(ctx context.Context, p *topics.Pipeline) error {
	_, _, err := dispatch.Attach(ctx, p, s.drawRun(), event.Ignore{})
	return err
}

func (s *simulation) checkTopics(ctx context.Context, p *topics.Pipeline) error {
	job := s.job
	job.Name, job.Examples.Partitions = simName, simPartitions
	if err := topics.CreateTopics(ctx, p, job, event.Ignore{}); err != nil {
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
		event.Ignore{})
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
		read := coverage.Span{Partition: n, From: at, To: at + 1 + s.random.Int64N(3)}
		what.Read = []source.SourceRows{{Topic: simSource, Span: read}}
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

func (s simAdmin) Embedded() bool { return false }

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
	return strings.HasPrefix(topic, simName+".verify-") || strings.HasPrefix(topic, simName+".search-")
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
	same, err := replay.Verify(ctx, p, by, job, version, event.Ignore{})
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
	if s.random.IntN(2) == 0 {
		p, log := s.shared()
		by := dispatch.Process{BLAS: s.blas, Arithmetic: simArithmetic}
		if err := s.verify(context.Background(), p, by, version); !s.explained(err) {
			s.fail("after the faults version %s can't be made again: %v", version, err)
		}
		log.close()
		return
	}
	s.start("auditor", func() {}, func(a *actor) error {
		a.awaited = true
		p := s.pipeline(a)
		err := s.verify(context.Background(), p, s.process(a), version)
		if !s.explained(err) {
			s.fail("after the faults version %s can't be made again: %v", version, err)
		}
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
		if p := partitions[span.Partition]; span.From >= p.first && span.To <= p.end && (!p.reuses || span.To <= p.reused) {
			s.fail("the examples of %v are all there: %v", span, err)
		}
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
	return replay.SearchIngested(ctx, p, s.process(a), jobs, &source.Ingested{}, folds, event.Ignore{}, check)
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

// heldOutExamples are messages of which rows are held out.
func heldOutExamples() *simExamples {
	e := manyExamples(6)
	e.holdout = 0.3
	return e
}
