package solver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// trial is a solver that gathers records: what it is sent, what the topics have, and how often it records a notice.
type trial struct {
	*Solver
	t      *testing.T
	script *scripted
	topics map[string][]wire.Message
	said   notices
}

// newTrial returns the solver of two stages on so many partitions, before the survey. Alone, it owns the plans topic for ever. change
// changes the plan; nil: nothing.
func newTrial(t *testing.T, partitions int, alone bool, change func(*schemas.Plan)) *trial {
	t.Helper()
	stage := solve.Defaults()
	stage.Features, stage.Link = stages.Defaults(), link.Softmax
	plan := &schemas.Plan{Stages: []schemas.Stage{stage, stage}, Segment: 1, Prepare: schemas.Prepare{Scale: stages.ScaleNone}}
	for n := range partitions {
		plan.Spans = append(plan.Spans, coverage.Span{Partition: n, To: 1})
	}
	if change != nil {
		change(plan)
	}
	owner := protocol.Owner(groupOwner{make(chan struct{})})
	if alone {
		owner = protocol.NewSoleOwner(0)
	}
	r := &trial{t: t, script: &scripted{}, topics: map[string][]wire.Message{}}
	client := &protocol.Client{Memory: memory.DefaultAllocator, Topics: protocol.TopicsOf("test"), Log: &topicsLog{topics: r.topics, script: r.script}}
	r.Solver = New(client, nil, plan, owner, Options{}, (&r.said).Record)
	r.topics[r.Topics.Plans] = assert.Must(plan.Messages())(t)
	r.plans = assert.Must(client.FollowPlans(t.Context(), nil, nil))(t)
	r.inbox.Begin(wire.Survey)
	return r
}

// messagesOf encodes a record.
func messagesOf[T wire.Number](t *testing.T, r *wire.Record[T]) []wire.Message {
	t.Helper()
	return assert.Must(r.EncodeWithin(wire.MaxMessage, memory.DefaultAllocator))(t)
}

// send lets the subscription deliver messages.
func (r *trial) send(topic string, messages ...wire.Message) {
	for _, m := range messages {
		r.script.deliveries = append(r.script.deliveries, &protocol.Delivery{Topic: topic,
			Message: protocol.Message{Message: m, Offset: int64(len(r.topics[topic]) + len(r.script.deliveries))}})
	}
}

// surveyVisit is the survey's visit.
func (r *trial) surveyVisit() protocol.Visit {
	return protocol.Visit{Stage: wire.Survey, Parent: r.chain.Root}
}

// visitOf encodes the record of a visit to a partition, which covers its span.
func (r *trial) visitOf(v protocol.Visit, partition int) []wire.Message {
	return messagesOf(r.t, wire.RecordOf[float64](&statistics.Visit{Identity: r.identity(statistics.KindVisit, v, partition),
		Covered: coverage.Coverage{Spans: coverage.Spans{{Partition: partition, To: 1}}}.Summary()}))
}

// gatherVisit gathers the sums of a visit.
func (r *trial) gatherVisit(v protocol.Visit) (*accumulate.Sum, error) {
	return r.gather(r.t.Context(), r.gathering(v, r.sums(statistics.KindVisit)))
}

// accept adds a record to the solver's chain, and returns the record's digest.
func (r *trial) accept(record *wire.Record[float32]) wire.Digest {
	r.t.Helper()
	for _, m := range messagesOf(r.t, record) {
		assert.Must(r.chain.Add(m))(r.t)
	}
	if r.chain.Head() != record.Digest() {
		r.t.Fatalf("%v is not accepted", record.Identity)
	}
	return record.Digest()
}

// survey returns a survey's result.
func (r *trial) survey() *wire.Record[float32] {
	return wire.RecordOf[float32](&statistics.SurveyResult{
		Identity: wire.Identity{Kind: statistics.KindPrepare, Run: r.run, Stage: wire.Survey, Parent: r.chain.Root},
		Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, []float32{0}), wire.Vector(statistics.TensorScale, []float32{1}),
			wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
		},
	})
}

// final returns the final weights of a stage.
func (r *trial) final(stage int, parent wire.Digest) *wire.Record[float32] {
	return wire.RecordOf[float32](&schemas.Weights{Identity: wire.Identity{Kind: schemas.KindWeights, Run: r.run, Stage: stage, Visit: 1,
		Parent: parent}, Final: &schemas.Final{}})
}

// deliver passes all messages of a record to the solver.
func deliver[T wire.Number](t *testing.T, s *trial, r *wire.Record[T]) {
	t.Helper()
	for _, m := range messagesOf(t, r) {
		if err := s.collect(m); err != nil {
			event.Skip(s.rec, "statistics", err)
		}
	}
}

// notices is a recorder that counts notices.
type notices int

func (n *notices) Record(e event.Event) {
	if _, ok := e.(event.Noticed); ok {
		*n++
	}
}

// topicsLog is a read-only log with one partition per topic.
type topicsLog struct {
	protocol.Log
	topics map[string][]wire.Message
	script *scripted
	age    time.Duration // asked for last
}

func (l *topicsLog) Subscribe(context.Context, <-chan struct{}, ...protocol.Position) protocol.Subscription {
	return l.script
}

func (l *topicsLog) Bounds(_ context.Context, topic string, _ int) (first, end int64, err error) {
	return 0, int64(len(l.topics[topic])), nil
}

func (l *topicsLog) Range(_ context.Context, topic string, _ int, from, to int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		for ; from < to; from++ {
			if !yield(protocol.Message{Message: l.topics[topic][from], Offset: from}, nil) {
				return
			}
		}
	}
}

func (l *topicsLog) Before(_ context.Context, _ string, age time.Duration) ([]int64, error) {
	l.age = age
	return []int64{0}, nil
}

// groupOwner owns partitions that other processes may also own.
type groupOwner struct{ changed chan struct{} }

func (groupOwner) Owned() []int                      { return []int{0} }
func (g groupOwner) Changed() <-chan struct{}        { return g.changed }
func (groupOwner) Commit(map[int]int64, func(error)) {}
func (groupOwner) Err() error                        { return nil }

// scripted is a subscription with some deliveries, followed by some timeouts. Then the test ends.
type scripted struct {
	deliveries []*protocol.Delivery
	late       int
	after      *protocol.Delivery // delivered after each timeout except the last; may be nil
	waited     bool
}

var errOver = errors.New("the test is over")

func (s *scripted) Next(context.Context, time.Duration) (*protocol.Delivery, bool, error) {
	if len(s.deliveries) > 0 {
		d := s.deliveries[0]
		s.deliveries = s.deliveries[1:]
		return d, false, nil
	}
	if s.waited && s.after != nil {
		s.waited = false
		return s.after, false, nil
	}
	s.waited = true
	if s.late--; s.late < 0 {
		return nil, false, errOver
	}
	return nil, true, nil
}

func (s *scripted) Close() {}

// A solver that takes over a run receives a visit to a stage whose weights are already accepted. A seal that precedes the
// visit is missing, so it was deleted, and the solver must not wait for it forever.
func TestSealThatIsGone(t *testing.T) {
	s := newTrial(t, 1, false, nil)
	write := func(r *wire.Record[float32]) wire.Digest {
		s.topics[s.Topics.Weights] = append(s.topics[s.Topics.Weights], messagesOf(t, r)...)
		return s.accept(r)
	}
	first := write(s.final(0, write(s.survey())))
	v := protocol.Visit{Stage: 0, Parent: first}
	seal := s.identity(statistics.KindSeal, v, 0)
	assert.True(t, !s.hasPassed(seal), "the seal is due")
	write(s.final(1, first))
	for _, m := range s.visitOf(protocol.Visit{Stage: 1, Parent: first}, 0) {
		_ = s.collect(m)
	}
	s.script.late = 1
	_, err := s.gather(t.Context(), s.gathering(v, s.sums(statistics.KindSeal)))
	assert.True(t, errors.Is(err, errGone), "behind the next stage's visit: %v", err)
}

// A worker's failure ends the run if it concerns the due visit and no worker makes the visit within patience. It does not
// if the worker was outdated, or if another worker makes the visit.
func TestFailureThatCounts(t *testing.T) {
	for name, test := range map[string]struct {
		alone     bool
		partition int    // of the failure; the plan has 0 and 1, and nobody makes the visit to 1
		parent    string // "": there is no failure; "due": of the visit that is due
		come      bool   // the visit of another worker arrives
		late      int    // number of timeouts before the end of the test
		fails     bool
	}{
		"alone":             {true, 0, "due", false, 0, true},
		"nobody else":       {false, 0, "due", false, 1, true},
		"within patience":   {false, 0, "due", false, 0, false},
		"another has it":    {false, 0, "due", true, 3, false},
		"of the other":      {false, 1, "due", true, 1, true},
		"of another visit":  {false, 0, "earlier", false, 3, false},
		"no failure at all": {false, 0, "", false, 3, false},
	} {
		s := newTrial(t, 2, test.alone, nil)
		failure := &schemas.Failure{Run: s.run, Parent: wire.Digest(test.parent), Partitions: []int{test.partition}, Reason: "offsets are gone"}
		if test.parent == "due" {
			failure.Parent = s.chain.Root
		}
		if test.parent != "" {
			s.send(s.Topics.Statistics, failure.Message())
		}
		if test.come {
			s.send(s.Topics.Statistics, s.visitOf(s.surveyVisit(), 0)...)
		}
		s.script.late = test.late
		_, err := s.gatherVisit(s.surveyVisit())
		failed := errors.As(err, new(*failureError))
		assert.True(t, failed == test.fails, "%s: gather ends with %v, expected a failure: %v", name, err, test.fails)
	}
}

// A failure may arrive before the weights of its visit, which are on another topic. It counts once they have arrived. That of a worker
// that can't read the expired weights of the run, and does not know which visit is due, counts in any case.
func TestFailureBeforeItsWeights(t *testing.T) {
	for name, test := range map[string]struct {
		of              func(*trial) wire.Digest
		expired, counts bool
	}{
		"of the visit that is due next": {func(s *trial) wire.Digest { return s.survey().Digest() }, false, true},
		"of the visit before":           {func(s *trial) wire.Digest { return s.chain.Root }, false, false},
		"of another chain":              {func(*trial) wire.Digest { return "another" }, false, false},
		"of expired weights":            {func(s *trial) wire.Digest { return s.chain.Root }, true, true},
	} {
		s := newTrial(t, 1, true, nil)
		failure := &schemas.Failure{Run: s.run, Parent: test.of(s), Partitions: []int{0}, Expired: test.expired, Reason: "offsets are gone"}
		if test.expired {
			s.accept(s.survey())
		}
		if s.send(s.Topics.Statistics, failure.Message()); !test.expired {
			s.send(s.Topics.Weights, messagesOf(t, s.survey())...)
		}
		for len(s.script.deliveries) > 0 {
			assert.Must(s.receive(t.Context(), time.Second))(t)
		}
		v, _ := s.chain.Due()
		_, err := s.gatherVisit(v)
		assert.Equal(t, errors.As(err, new(*failureError)), test.counts, "a failure %s counts", name)
	}
}

// A solver writes the weights of a long run again before they expire, and checks the retention no more often than necessary.
func TestSolverPreservesWeights(t *testing.T) {
	for name, test := range map[string]struct {
		retention time.Duration
		ago       time.Duration // last check
		asked     int
		age       time.Duration // minimum age of messages to write again
	}{
		"a short run":          {24 * time.Hour, 14 * time.Minute, 0, 0},
		"a long run":           {24 * time.Hour, 16 * time.Minute, 1, 12 * time.Hour},
		"kept for ever":        {0, 16 * time.Minute, 1, 0},
		"the shortest of them": {time.Hour, 16 * time.Minute, 1, 30 * time.Minute},
	} {
		s := newTrial(t, 1, true, nil)
		asked, log := 0, &topicsLog{topics: s.topics}
		s.options.Retention = func(context.Context) (time.Duration, error) {
			asked++
			return test.retention, nil
		}
		s.Log, s.preserved = log, time.Now().Add(-test.ago)
		for range 3 {
			assert.NoError(t, s.preserve(t.Context()))
		}
		assert.Equal(t, asked, test.asked, "%s: times that the retention was asked for", name)
		assert.Equal(t, log.age, test.age, "%s: the age of messages that were looked for", name)
	}
}

// Workers do not write again what is on the statistics topic. So a waiting solver finds messages at offsets that it has
// already read: the topic was truncated and written again, or the solver has dropped a damaged or incomplete record.
func TestSolverFindsWhatItHasMissed(t *testing.T) {
	const claim, damaged = -1, 2 // besides the visits to the partitions 0 and 1; damaged + n is that to partition n
	for name, test := range map[string]struct {
		come, topic []int
		found       bool
	}{
		"truncated and written again":              {[]int{0}, []int{1}, true},
		"truncated and written again, and read on": {[]int{0, claim}, []int{1, claim}, true},
		"damaged on its way":                       {[]int{damaged + 1, 0}, []int{1, 0}, true},
		"damaged on the topic":                     {[]int{damaged + 1, 0}, []int{damaged + 1, 0}, false},
		"not there":                                {[]int{0}, []int{0}, false},
	} {
		s := newTrial(t, 2, false, func(p *schemas.Plan) { p.Since.Statistics = []int64{0} })
		messages := func(list []int) (messages []wire.Message) {
			for _, which := range list {
				if which == claim {
					messages = append(messages, (&schemas.Claim{Run: s.run}).Message())
					continue
				}
				m := s.visitOf(s.surveyVisit(), which%damaged)[0]
				if which >= damaged {
					m.Value = m.Value[:len(m.Value)/2]
				}
				messages = append(messages, m)
			}
			return messages
		}
		s.send(s.Topics.Statistics, messages(test.come)...)
		s.topics[s.Topics.Statistics], s.script.late = messages(test.topic), 4
		sum, err := s.gatherVisit(s.surveyVisit())
		found := err == nil
		assert.True(t, found == test.found && (!found || len(sum.Spans) == 2) && (found || errors.Is(err, errOver)), "%s: %v, %v", name, sum, err)
		assert.True(t, s.said <= 1+4, "%s: %d notices", name, s.said) // of a skipped message, and each wait
	}
}

// A solver reports that it waits for a worker of another process. It does not report it for the only worker, in its own
// process, because a block of images takes minutes.
func TestWaitingIsSaid(t *testing.T) {
	for alone, want := range map[bool]notices{true: 0, false: 3} {
		s := newTrial(t, 1, alone, nil)
		s.script.late = 3
		assert.MustFail(s.gatherVisit(s.surveyVisit()))(t, errOver)
		assert.Equal(t, s.said, want, "alone %v: notices", alone)
	}
}

// A solver gives up a run that no worker starts, and waits indefinitely for one that was started or is being surveyed.
func TestSolverGivesUp(t *testing.T) {
	for name, test := range map[string]struct{ begun, surveys bool }{"no worker": {}, "a worker": {begun: true},
		"a long survey": {surveys: true}} {
		s := newTrial(t, 1, false, nil)
		s.GiveUp, s.script.late = 100*time.Second, 5 // 30 s, then as long again and twice as long
		if test.begun {
			for _, m := range s.visitOf(s.surveyVisit(), 0) {
				_ = s.collect(m)
			}
		}
		if test.surveys {
			s.script.after = &protocol.Delivery{Topic: s.Topics.Statistics,
				Message: protocol.Message{Message: (&schemas.Claim{Run: s.run}).Message()}}
		}
		_, err := s.gather(t.Context(), s.gathering(s.surveyVisit(), &part{kind: statistics.KindSample}))
		unclaimed := errors.As(err, new(*protocol.UnclaimedError))
		assert.True(t, unclaimed != (test.begun || test.surveys), "%s: gather ends with %v", name, err)
	}
}

// The brokers have lost a visit, but not the final weights made from it. No worker makes the visit again, so a solver of a chain that takes
// over the run does not wait forever: the run fails, unless the visit is on the topic. It waits for the due visit.
func TestVisitThatIsGone(t *testing.T) {
	for name, test := range map[string]struct{ final, there bool }{
		"lost": {final: true}, "there": {final: true, there: true}, "due": {},
	} {
		s := newTrial(t, 1, false, func(p *schemas.Plan) { p.Chain, p.Since.Statistics = &schemas.Chain{Number: 1}, []int64{0} })
		write := func(r *wire.Record[float32]) wire.Digest {
			s.topics[s.Topics.Weights] = append(s.topics[s.Topics.Weights], messagesOf(t, r)...)
			return s.accept(r)
		}
		v := protocol.Visit{Stage: 0, Parent: write(s.survey())}
		if test.final {
			write(s.final(0, v.Parent))
		}
		if test.there {
			s.topics[s.Topics.Statistics] = s.visitOf(v, 0)
		}
		s.script.late = 3
		s.inbox.Begin(0)
		sum, err := s.gatherVisit(v)
		switch gone := errors.Is(err, errGone); {
		case test.there && err != nil, test.final && !test.there && !gone, !test.final && !errors.Is(err, errOver):
			t.Errorf("%s: gather returns %+v, %v", name, sum, err)
		}
	}
}

// Another solver has published the survey's result while this one waits for the survey. This one drops the survey's visits that arrive from
// then on, and does not consider them deleted, whether it learns of the result from the subscription or from a check after a timeout.
func TestVisitThatIsNoLongerNeeded(t *testing.T) {
	for _, subscribed := range []bool{true, false} {
		s := newTrial(t, 1, false, nil)
		s.script.late = 1
		if weights := messagesOf(t, s.survey()); subscribed {
			s.send(s.Topics.Weights, weights...)
			for _, v := range []protocol.Visit{s.surveyVisit(), {Stage: 0, Parent: s.survey().Digest()}} {
				s.send(s.Topics.Statistics, s.visitOf(v, 0)...)
			}
		} else {
			s.topics[s.Topics.Weights] = weights
		}
		sum, err := s.gatherVisit(s.surveyVisit())
		assert.True(t, errors.Is(err, errAccepted), "subscribed %v: gather returns %+v, %v; expected errAccepted", subscribed, sum, err)
	}
}

// A warning lists the labels without training rows, and similar labels if these are unique.
func TestLabelsWithoutTrainingRows(t *testing.T) {
	for _, test := range []struct {
		trained   []string
		untrained map[string]int64
		want      string
	}{
		{[]string{"a", "b"}, nil, ""},
		{[]string{"0", "1"}, map[string]int64{"0.0": 10, "1.0": 5}, `classes without training rows, so 15 holdout or test rows can't be predicted: "0.0" (is "0" meant?) and "1.0" (is "1" meant?)`},
		{[]string{"iris", "rose"}, map[string]int64{"iris.": 1}, `a class without training rows, so 1 holdout or test row can't be predicted: "iris." (is "iris" meant?)`},
		{[]string{"<=50K", ">50K"}, map[string]int64{"<=50K.": 2, " >50k ": 1}, `classes without training rows, so 3 holdout or test rows can't be predicted: " >50k " (is ">50K" meant?) and "<=50K." (is "<=50K" meant?)`},
		{[]string{"setosa", "virginica"}, map[string]int64{"setossa": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "setossa" (is "setosa" meant?)`},
		{[]string{"Iris-setosa", "virginica"}, map[string]int64{"iris setosa": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "iris setosa" (is "Iris-setosa" meant?)`},
		{[]string{"1", "2"}, map[string]int64{"3": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "3"`},
		{[]string{"a b", "a-b"}, map[string]int64{"a_b": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "a_b"`},
		{[]string{"a", "b"}, map[string]int64{"b": 2}, ""}, // another partition has training rows of it
	} {
		labels := statistics.LabelSet{}
		for label := range test.untrained {
			labels.Add(label, 0)
		}
		for _, label := range test.trained {
			labels.Add(label, 3)
		}
		assert.Equal(t, noticeUntrained(labels, test.untrained), test.want, "%q, %v", test.trained, test.untrained)
	}
}

// The first complete record of an identity counts. A different one is reported, an identical one is not, and seals may
// differ, because the same scores may have other offsets.
func TestFirstRecordCounts(t *testing.T) {
	for kind, want := range map[wire.Kind]notices{statistics.KindVisit: 1, statistics.KindSeal: 0} {
		s := newTrial(t, 1, true, nil)
		id := wire.Identity{Kind: kind, Run: s.run}
		with := func(v float64) *wire.Record[float64] {
			return &wire.Record[float64]{Identity: id, Tensors: wire.Tensors[float64]{wire.Vector(statistics.FieldSums, []float64{v})}}
		}
		for _, v := range []float64{1, 1, 2} {
			deliver(t, s, with(v))
		}
		assert.Equal(t, s.said, want, "%s: notices", kind)
		r := s.inbox.take(id)
		assert.True(t, r != nil && r.Tensors[0].Data[0] == 1, "%s: %v counts, expected the first", kind, r)
		deliver(t, s, with(1)) // it was reduced already
		assert.True(t, !s.inbox.holds(id), "%s: a repetition of what was reduced is kept", kind)
	}
}

// Nothing is kept for solved stages, and for stages and partitions outside the plan.
func TestInboxKeepsWhatIsAskedFor(t *testing.T) {
	s := newTrial(t, 1, true, nil)
	visit := func(stage, partition int) wire.Identity {
		return wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: stage, Partition: partition}
	}
	for _, id := range []wire.Identity{visit(0, 0), visit(1, 0), visit(2, 0), visit(0, 1)} {
		deliver(t, s, &wire.Record[float64]{Identity: id})
		assert.Equal(t, s.inbox.holds(id), id.Stage < 2 && id.Partition == 0, "%v is kept", id)
	}
	s.inbox.Begin(1)
	assert.True(t, !s.inbox.holds(visit(0, 0)) && s.inbox.holds(visit(1, 0)),
		"stage 1 begins: the inbox must keep what is of stage 1, and nothing else")
	deliver(t, s, &wire.Record[float64]{Identity: visit(0, 0)})
	assert.True(t, !s.inbox.holds(visit(0, 0)), "a record of stage 0 is kept while stage 1 is solved")
}

// After the final weights of a later stage, missing records of earlier stages are considered deleted, even if no visit is left.
func TestFinalWeightsSayWhatIsGone(t *testing.T) {
	s := newTrial(t, 1, true, nil)
	first := s.accept(s.final(0, s.accept(s.survey())))
	seal, visit := wire.Identity{Kind: statistics.KindSeal}, wire.Identity{Kind: statistics.KindVisit, Stage: 1}
	assert.True(t, !s.hasPassed(seal) && !s.hasPassed(visit), "the seal and the visit are missing")
	s.accept(s.final(1, first))
	assert.True(t, s.hasPassed(seal) && s.hasPassed(visit), "the seal of stage 0 and the visit to stage 1 are due")
	last := wire.Identity{Kind: statistics.KindSeal, Stage: 1}
	assert.True(t, !s.hasPassed(last), "the seal of the last stage is not due")
}

// Sums about different points are not added.
func TestVisitsAboutDifferentPoints(t *testing.T) {
	visit := func(partition int, shift []float32, targets []float64, sparse bool) *statistics.SurveyVisit {
		v := &statistics.SurveyVisit{Common: statistics.Common{Shift: shift, TargetShift: targets}, Findings: statistics.NewFindings(),
			Sparse: sparse}
		v.Parts = []coverage.Coverage{{Spans: coverage.Spans{{Partition: partition, To: 1}}}}
		v.Identity = wire.Identity{Kind: statistics.KindVisit, Stage: wire.Survey, Partition: partition}
		return v
	}
	first := visit(0, []float32{1, 2}, []float64{3}, false)
	for name, other := range map[string]*statistics.SurveyVisit{
		"shift": visit(1, []float32{1, 3}, []float64{3}, false), "width": visit(1, []float32{1}, []float64{3}, false),
		"targets": visit(1, []float32{1, 2}, []float64{4}, false), "sparse": visit(1, []float32{1, 2}, []float64{3}, true),
	} {
		f := &surveyed{Findings: statistics.NewFindings()}
		assert.NoError(t, f.add(first, &schemas.Share{Partitions: []int{0}}))
		err := f.add(other, &schemas.Share{Partitions: []int{1}})
		assert.True(t, errors.Is(err, errOtherPoint), "%s: %v, expected ErrOtherPoint", name, err)
		err = f.add(visit(1, []float32{1, 2}, []float64{3}, false), &schemas.Share{Partitions: []int{1}})
		assert.True(t, err == nil, "%s: %v for the same point", name, err)
	}
}

// Two solvers must write the same survey's result. So the findings of a chain's partitions are in partition order, not in
// the order of the records, which is arbitrary.
func TestSurveyIsInTheOrderOfPartitions(t *testing.T) {
	for _, arrivals := range [][]int{{0, 1, 2}, {2, 0, 1}} {
		s := newTrial(t, len(arrivals), true, func(p *schemas.Plan) {
			p.Chain, p.Group, p.Warm = &schemas.Chain{Number: 1}, 1, &schemas.Warm{}
			for n := range p.Spans {
				p.Spans[n].To = 3
			}
		})
		for _, n := range arrivals {
			covered := coverage.Coverage{Spans: coverage.Spans{{Partition: n, To: 3}}}
			visit := &statistics.SurveyVisit{
				Visit: statistics.Visit{Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey, Partition: n,
					Parent: s.chain.Root}, Covered: covered.Summary()},
				Findings: statistics.Findings{
					Parts:   []coverage.Coverage{covered},
					Skipped: coverage.Spans{{Partition: n, From: 1, To: 2}}, ByIncrement: [][]coverage.Coverage{{covered}},
					Progress: []statistics.PartitionProgress{{Source: fmt.Sprint("source ", n), Partition: n, Next: 1}},
				},
			}
			s.send(s.Topics.Statistics, messagesOf(t, visit.Record())...)
		}
		found := &surveyed{Findings: statistics.NewFindings()}
		found.sum = assert.Must(s.gather(t.Context(), s.gathering(s.surveyVisit(), s.surveySum(found, &accumulate.Sample{})...)))(t)
		found.divide(s.plan)
		for n := range arrivals {
			assert.True(t, found.Skipped[n].Partition == n && found.Parts[n].Spans[0].Partition == n &&
				found.increments[0].Covered[n].Spans[0].Partition == n && found.increments[0].Skipped[n].Partition == n &&
				found.Progress[n].Source == fmt.Sprint("source ", n), "after arrivals %v: %+v", arrivals, found)
		}
	}
}

// stateLog keeps what is written to it.
type stateLog struct {
	protocol.Log
	messages []wire.Message
}

func (l *stateLog) Append(_ context.Context, _ string, _ int, messages ...wire.Message) (int64, error) {
	l.messages = append(l.messages, messages...)
	return int64(len(l.messages) - len(messages)), nil
}

// State that no run needs any more has one tombstone a message, however different the records of its stages are.
func TestStateIsReleasedByItsKeys(t *testing.T) {
	log := &stateLog{}
	client := &protocol.Client{Log: log, Memory: memory.DefaultAllocator, Chunk: 10_000, Topics: protocol.TopicsOf("test")}
	var records []encoded
	for stage, size := range []int{10_000, 1} {
		id := wire.Identity{Kind: statistics.KindMoments, Run: "run", Stage: stage}
		sums := statistics.OccurringSums{Identity: id, Summed: make([]float64, size)}
		records = append(records, func() ([]wire.Message, error) {
			return wire.RecordOf[float64](&sums).EncodeWithin(client.Chunk, client.Memory)
		})
	}
	w := schemas.Window{Stages: 2, Moments: schemas.StatePlace{Run: "run"}}
	state := stateWriter{Client: client}
	assert.Must(state.add(t.Context(), records, &w.Moments))(t)
	assert.NoError(t, state.flush(t.Context()))
	written := append(log.messages, assert.Must(w.Messages())(t)...)
	log.messages = nil
	assert.NoError(t, protocol.ReleaseState(t.Context(), client, &w))
	erased := func(m, of wire.Message) bool { return m.Value == nil && m.Key == of.Key }
	assert.True(t, len(written) >= 4 && slices.EqualFunc(log.messages, written, erased), "%d tombstones, %d", len(log.messages), len(written))
}
