package solver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// A solver that takes over a run receives a visit to a stage whose weights are already accepted. A seal that precedes the
// visit is missing, so it was deleted, and the solver must not wait for it forever.
func TestSealThatIsGone(t *testing.T) {
	stage := solve.Defaults()
	stage.Features = stages.Defaults()
	plan := &schemas.Plan{
		Name: "gone", Foreign: true, Spans: coverage.Spans{{Partition: 0, From: 0, To: 1}},
		Stages: []schemas.Stage{stage, stage},
	}
	s := New(&protocol.Client{Memory: memory.DefaultAllocator}, nil, plan, 0, protocol.NewSoleOwner(0), Options{}, event.Ignore{})
	parent := accept(t, s, surveyResult(s))
	final := func(stage int) *wire.Record[float32] {
		return wire.RecordOf[float32](&schemas.Weights{Identity: wire.Identity{Kind: schemas.KindWeights, Run: s.run, Stage: stage, Visit: 1,
			Parent: parent}, Final: &schemas.Final{}})
	}
	first := accept(t, s, final(0))
	parent = first
	accept(t, s, final(1))

	sealed := protocol.Visit{Stage: 0, Parent: first}
	lacks := func() (bool, error) { return s.lacks(s.identity(statistics.KindSeal, sealed, 0)) }
	if lacks, err := lacks(); !lacks || err != nil {
		t.Fatalf("before anything has come: %v, %v", lacks, err)
	}
	later := statistics.Visit{Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: 1, Parent: first}}
	messages := arrowtest.Must(wire.RecordOf[float64](&later).EncodeWithin(s.Chunk, s.Memory))(t)
	for _, m := range messages {
		s.collectOrSkip(m)
	}
	if lacks, err := lacks(); !errors.As(err, new(*goneError)) {
		t.Errorf("behind the next stage's visit: %v, %v", lacks, err)
	}
}

// accept adds a record to the solver's chain, and returns the record's digest.
func accept(t *testing.T, s *Solver, r *wire.Record[float32]) wire.Digest {
	t.Helper()
	messages := arrowtest.Must(r.EncodeWithin(s.Chunk, s.Memory))(t)
	for _, m := range messages {
		arrowtest.Must(s.chain.Add(m))(t)
	}
	if s.chain.Head() != r.Digest() {
		t.Fatalf("%v is not accepted", r.Identity)
	}
	return r.Digest()
}

// plansLog is a log that only has messages on the plans topic.
type plansLog struct {
	protocol.Log
	messages []wire.Message
}

func (l plansLog) Bounds(context.Context, string, int) (first, end int64, err error) {
	return 0, int64(len(l.messages)), nil
}

func (l plansLog) Range(_ string, _ int, from, to int64) protocol.Reader {
	return &plansReader{l.messages[from:to], from}
}

// plansReader reads the messages of a plansLog.
type plansReader struct {
	messages []wire.Message
	offset   int64
}

func (r *plansReader) Next(context.Context) (protocol.Message, error) {
	if len(r.messages) == 0 {
		return protocol.Message{}, io.EOF
	}
	m := protocol.Message{Message: r.messages[0], Offset: r.offset}
	r.messages, r.offset = r.messages[1:], r.offset+1
	return m, nil
}

func (r *plansReader) Close() error { return nil }

// A worker's failure ends the run if it concerns the due visit and no worker makes the visit within patience. It does not
// if the worker was outdated, or if another worker makes the visit.
func TestFailureThatCounts(t *testing.T) {
	visit := func(s *Solver) *wire.Record[float64] {
		return wire.RecordOf[float64](&statistics.Visit{Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey, Parent: s.chain.Root},
			Covered: coverage.Coverage{Spans: s.plan.Spans[:1]}.Summary()})
	}
	for name, test := range map[string]struct {
		alone     bool
		partition int // of the failure; the plan has 0 and 1, and nobody makes the visit to 1
		parent    func(*Solver) wire.Digest
		come      bool // the visit of another worker arrives
		late      int  // number of timeouts before the end of the test
		fails     bool
	}{
		"alone":             {true, 0, func(s *Solver) wire.Digest { return s.chain.Root }, false, 0, true},
		"nobody else":       {false, 0, func(s *Solver) wire.Digest { return s.chain.Root }, false, 1, true},
		"within patience":   {false, 0, func(s *Solver) wire.Digest { return s.chain.Root }, false, 0, false},
		"another has it":    {false, 0, func(s *Solver) wire.Digest { return s.chain.Root }, true, 3, false},
		"of the other":      {false, 1, func(s *Solver) wire.Digest { return s.chain.Root }, true, 1, true},
		"of another visit":  {false, 0, func(*Solver) wire.Digest { return "earlier" }, false, 3, false},
		"no failure at all": {false, 0, nil, false, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			s.plan.Spans = append(s.plan.Spans, coverage.Span{Partition: 1, To: 1})
			s.visited, s.surveyed = s.plan.Shares(s.plan.Partitions()), s.plan.Shares(s.plan.Surveyed())
			if !test.alone {
				s.owner = groupOwner{make(chan struct{})}
			}
			var deliveries []*protocol.Delivery
			deliver := func(m wire.Message) {
				deliveries = append(deliveries, &protocol.Delivery{Topic: s.Topics.Statistics, Message: protocol.Message{Message: m}})
			}
			if test.parent != nil {
				deliver((&schemas.Failure{Run: s.run, Parent: test.parent(s), Partitions: []int{test.partition}, Reason: "offsets are gone"}).Message())
			}
			if test.come {
				messages, err := visit(s).EncodeWithin(s.Chunk, s.Memory)
				arrowtest.NoError(t, err)
				for _, m := range messages {
					deliver(m)
				}
			}
			s.subscription = &scripted{deliveries: deliveries, late: test.late}
			plan, err := s.plan.Messages()
			arrowtest.NoError(t, err)
			s.Log = plansLog{messages: plan}
			s.inbox.Begin(wire.Survey)
			v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
			_, err = s.gather(t.Context(), s.gathering(v, s.visitSum()))
			var failure *failureError
			if failed := errors.As(err, &failure); failed != test.fails {
				t.Errorf("gather ends with %v, expected a failure: %v", err, test.fails)
			}
		})
	}
}

// topicsLog is a read-only log with one partition per topic.
type topicsLog struct {
	protocol.Log
	topics map[string][]wire.Message
}

func (l topicsLog) Bounds(_ context.Context, topic string, _ int) (first, end int64, err error) {
	return 0, int64(len(l.topics[topic])), nil
}

func (l topicsLog) Range(topic string, _ int, from, to int64) protocol.Reader {
	return &plansReader{l.topics[topic][from:to], from}
}

// A failure may arrive before the weights of its visit, which are on another topic. It counts once they have arrived.
func TestFailureBeforeItsWeights(t *testing.T) {
	for name, of := range map[string]func(*Solver, *wire.Record[float32]) wire.Digest{
		"of the visit that is due next": func(_ *Solver, survey *wire.Record[float32]) wire.Digest { return survey.Digest() },
		"of the visit before":           func(s *Solver, _ *wire.Record[float32]) wire.Digest { return s.chain.Root },
		"of another chain":              func(*Solver, *wire.Record[float32]) wire.Digest { return "another" },
	} {
		s := newTestSolver(event.Ignore{})
		survey := surveyResult(s)
		messages, err := survey.EncodeWithin(s.Chunk, s.Memory)
		arrowtest.NoError(t, err)
		failure := &schemas.Failure{Run: s.run, Parent: of(s, survey), Partitions: []int{0}, Reason: "offsets are gone"}
		s.subscription = &scripted{deliveries: []*protocol.Delivery{
			{Topic: s.Topics.Statistics, Message: protocol.Message{Message: failure.Message()}}, {Topic: s.Topics.Weights, Message: protocol.Message{Message: messages[0]}},
		}}
		for range 2 {
			arrowtest.Must(s.receive(t.Context(), time.Second))(t)
		}
		v, _ := s.chain.Due()
		_, err = s.gather(t.Context(), s.gathering(v, s.visitSum()))
		if counts, want := errors.As(err, new(*failureError)), failure.Parent == survey.Digest(); counts != want {
			t.Errorf("a failure %s: gather ends with %v", name, err)
		}
	}
}

// A worker that can't read the expired weights of the run does not know which visit is due. Its failure counts
// nevertheless.
func TestFailureOfExpiredWeights(t *testing.T) {
	s := newTestSolver(event.Ignore{})
	accept(t, s, surveyResult(s))
	failure := &schemas.Failure{Run: s.run, Parent: s.chain.Root, Partitions: []int{0}, Expired: true, Reason: "the weights are gone"}
	s.subscription = &scripted{deliveries: []*protocol.Delivery{{Topic: s.Topics.Statistics,
		Message: protocol.Message{Message: failure.Message()}}}}
	v, _ := s.chain.Due()
	if _, err := s.gather(t.Context(), s.gathering(v, s.visitSum())); !errors.As(err, new(*failureError)) {
		t.Errorf("gather ends with %v, expected the failure", err)
	}
}

// A solver writes the weights of a long run again before they expire, and checks the retention no more often than
// necessary.
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
		asked, log := 0, &agedLog{topicsLog: topicsLog{topics: map[string][]wire.Message{}}}
		s := newTestSolver(event.Ignore{})
		s.options.Retention = func(context.Context) (time.Duration, error) {
			asked++
			return test.retention, nil
		}
		s.Log, s.preserved = log, time.Now().Add(-test.ago)
		for range 3 {
			arrowtest.NoError(t, s.preserve(t.Context()))
		}
		if asked != test.asked || log.age != test.age {
			t.Errorf("%s: asked %d times, and looked for messages older than %v; expected %d and %v", name, asked, log.age, test.asked, test.age)
		}
	}
}

// agedLog records the requested age.
type agedLog struct {
	topicsLog
	age time.Duration
}

func (l *agedLog) Before(_ context.Context, _ string, age time.Duration) ([]int64, error) {
	l.age = age
	return []int64{0}, nil
}

// surveyResult returns a survey's result for the plan of a test solver.
func surveyResult(s *Solver) *wire.Record[float32] {
	return wire.RecordOf[float32](&statistics.SurveyResult{
		Identity: wire.Identity{Kind: statistics.KindPrepare, Run: s.run, Stage: wire.Survey, Parent: s.chain.Root},
		Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, []float32{0}), wire.Vector(statistics.TensorScale, []float32{1}),
			wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
		},
	})
}

// Workers do not write again what is on the statistics topic. So a waiting solver finds messages at offsets that it has
// already read: the topic was truncated and written again, or the solver has dropped a damaged or incomplete record.
func TestSolverFindsWhatItHasMissed(t *testing.T) {
	visit := func(s *Solver, partition int) wire.Message {
		span := coverage.Spans{{Partition: partition, To: 1}}
		messages := arrowtest.Must(wire.RecordOf[float64](&statistics.Visit{
			Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey, Partition: partition, Parent: s.chain.Root},
			Covered:  coverage.Coverage{Spans: span}.Summary(),
		}).EncodeWithin(s.Chunk, s.Memory))(t)
		return messages[0]
	}
	var claim wire.Message
	for name, test := range map[string]struct {
		come, topic func(visit0, visit1 wire.Message) []wire.Message
		found       bool
	}{
		"truncated and written again": {
			come:  func(m0, _ wire.Message) []wire.Message { return []wire.Message{m0} },
			topic: func(_, m1 wire.Message) []wire.Message { return []wire.Message{m1} },
			found: true,
		},
		"truncated and written again, and read on": {
			come:  func(m0, _ wire.Message) []wire.Message { return []wire.Message{m0, claim} },
			topic: func(_, m1 wire.Message) []wire.Message { return []wire.Message{m1, claim} },
			found: true,
		},
		"damaged on its way": {
			come: func(m0, m1 wire.Message) []wire.Message {
				damaged := m1
				damaged.Value = m1.Value[:len(m1.Value)/2]
				return []wire.Message{damaged, m0}
			},
			topic: func(m0, m1 wire.Message) []wire.Message { return []wire.Message{m1, m0} },
			found: true,
		},
		"damaged on the topic": {
			come: func(m0, m1 wire.Message) []wire.Message {
				m1.Value = m1.Value[:len(m1.Value)/2]
				return []wire.Message{m1, m0}
			},
			topic: func(m0, m1 wire.Message) []wire.Message {
				m1.Value = m1.Value[:len(m1.Value)/2]
				return []wire.Message{m1, m0}
			},
		},
		"not there": {
			come:  func(m0, _ wire.Message) []wire.Message { return []wire.Message{m0} },
			topic: func(m0, _ wire.Message) []wire.Message { return []wire.Message{m0} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			skipped := notices(0)
			s := newTestSolver(&skipped)
			s.owner = groupOwner{make(chan struct{})}
			s.plan.Spans, s.plan.Since.Statistics = append(s.plan.Spans, coverage.Span{Partition: 1, To: 1}), []int64{0}
			s = New(s.Client, nil, s.plan, 0, s.owner, Options{}, &skipped) // of the modified plan
			plan := arrowtest.Must(s.plan.Messages())(t)
			claim = (&schemas.Claim{Run: s.run}).Message()
			script := &scripted{late: 4}
			for i, m := range test.come(visit(s, 0), visit(s, 1)) {
				script.deliveries = append(script.deliveries, &protocol.Delivery{Topic: s.Topics.Statistics,
					Message: protocol.Message{Message: m, Offset: int64(i)}})
			}
			s.subscription = script
			s.Log = topicsLog{topics: map[string][]wire.Message{s.Topics.Plans: plan, s.Topics.Statistics: test.topic(visit(s, 0), visit(s, 1))}}
			s.inbox.Begin(wire.Survey)
			v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
			sum, err := s.gather(t.Context(), s.gathering(v, s.visitSum()))
			if found := err == nil; found != test.found || found && len(sum.Spans) != 2 || !found && !errors.Is(err, errOver) {
				t.Errorf("gather returns %+v, %v", sum, err)
			}
			if skipped > 1+4 { // a skipped message, and each wait
				t.Errorf("%d notices", skipped)
			}
		})
	}
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

// A solver reports that it waits for a worker of another process. It does not report it for the only worker, in its own
// process, because a block of images takes minutes.
func TestWaitingIsSaid(t *testing.T) {
	for _, alone := range []bool{true, false} {
		said := notices(0)
		s := newTestSolver(&said)
		if !alone {
			s.owner = groupOwner{make(chan struct{})}
		}
		plan := arrowtest.Must(s.plan.Messages())(t)
		s.Log, s.subscription = plansLog{messages: plan}, &scripted{late: 3}
		s.inbox.Begin(wire.Survey)
		v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
		if _, err := s.gather(t.Context(), s.gathering(v, s.visitSum())); !errors.Is(err, errOver) {
			t.Fatalf("gather ends with %v", err)
		}
		if want := map[bool]notices{true: 0, false: 3}[alone]; said != want {
			t.Errorf("alone %v: %d notices, expected %d", alone, said, want)
		}
	}
}

// A solver gives up a run that no worker starts, and waits indefinitely for one that was started or is being surveyed.
func TestSolverGivesUp(t *testing.T) {
	for name, test := range map[string]struct{ begun, surveys bool }{"no worker": {}, "a worker": {begun: true},
		"a long survey": {surveys: true}} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			s.owner, s.GiveUp = groupOwner{make(chan struct{})}, 100*time.Second
			s.inbox.Begin(wire.Survey)
			v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
			if test.begun {
				deliver(t, s, wire.RecordOf[float64](&statistics.Visit{Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey,
					Parent: s.chain.Root}}))
			}
			plan, err := s.plan.Messages()
			arrowtest.NoError(t, err)
			s.Log = plansLog{messages: plan}
			script := &scripted{late: 5} // 30 s, then as long again and twice as long
			if test.surveys {
				claim := schemas.Claim{Run: s.run}
				script.after = &protocol.Delivery{Topic: s.Topics.Statistics, Message: protocol.Message{Message: claim.Message()}}
			}
			s.subscription = script
			_, err = s.gather(t.Context(), s.gathering(v, &part{kind: statistics.KindSample}))
			if unclaimed := errors.As(err, new(*protocol.UnclaimedError)); unclaimed == (test.begun || test.surveys) {
				t.Errorf("gather ends with %v", err)
			}
		})
	}
}

// The brokers have lost a visit, but not the final weights made from it. No worker makes the visit again, so a solver of a
// chain that takes over the run does not wait forever: the run fails, unless the visit is on the topic. It waits for the
// due visit.
func TestVisitThatIsGone(t *testing.T) {
	for name, test := range map[string]struct{ final, there bool }{
		"lost": {final: true}, "there": {final: true, there: true}, "due": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			plan := s.plan
			plan.Chain, plan.Since.Statistics = &schemas.Chain{Number: 1}, []int64{0}
			s = New(s.Client, nil, plan, 0, groupOwner{make(chan struct{})}, Options{}, event.Ignore{}) // of the modified plan
			planned := arrowtest.Must(plan.Messages())(t)
			log := topicsLog{topics: map[string][]wire.Message{s.Topics.Plans: planned}}
			write := func(topic string, messages []wire.Message, err error) {
				arrowtest.NoError(t, err)
				log.topics[topic] = append(log.topics[topic], messages...)
			}
			result := surveyResult(s)
			messages, err := result.EncodeWithin(s.Chunk, s.Memory)
			write(s.Topics.Weights, messages, err)
			v := protocol.Visit{Stage: 0, Parent: accept(t, s, result)}
			if test.final {
				final := wire.RecordOf[float32](&schemas.Weights{Identity: wire.Identity{Kind: schemas.KindWeights, Run: s.run, Visit: 1, Parent: v.Parent},
					Final: &schemas.Final{}})
				accept(t, s, final)
				messages, err := final.EncodeWithin(s.Chunk, s.Memory)
				write(s.Topics.Weights, messages, err)
			}
			if test.there {
				messages, err := wire.RecordOf[float64](&statistics.Visit{Identity: s.identity(statistics.KindVisit, v, 0),
					Covered: coverage.Coverage{Spans: plan.Spans}.Summary()}).EncodeWithin(s.Chunk, s.Memory)
				write(s.Topics.Statistics, messages, err)
			}
			s.Log, s.subscription = log, &scripted{late: 3}
			s.inbox.Begin(0)
			sum, err := s.gather(t.Context(), s.gathering(v, s.visitSum()))
			switch gone := errors.As(err, new(*goneError)); {
			case test.there && err != nil, test.final && !test.there && !gone, !test.final && !errors.Is(err, errOver):
				t.Errorf("gather returns %+v, %v", sum, err)
			}
		})
	}
}

// Another solver has published the survey's result while this one waits for the survey. This one drops the survey's visits
// that arrive from then on, and does not consider them deleted, whether it learns of the result from the subscription or
// from a check after a timeout.
func TestVisitThatIsNoLongerNeeded(t *testing.T) {
	for name, subscribed := range map[string]bool{"from the subscription": true, "after a wait": false} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			planned := arrowtest.Must(s.plan.Messages())(t)
			result := surveyResult(s)
			weights := arrowtest.Must(result.EncodeWithin(s.Chunk, s.Memory))(t)
			log := topicsLog{topics: map[string][]wire.Message{s.Topics.Plans: planned}}
			script := &scripted{late: 1}
			deliver := func(topic string, messages ...wire.Message) {
				for _, m := range messages {
					script.deliveries = append(script.deliveries, &protocol.Delivery{Topic: topic, Message: protocol.Message{Message: m}})
				}
			}
			if subscribed {
				deliver(s.Topics.Weights, weights...)
				for _, v := range []protocol.Visit{{Stage: wire.Survey, Parent: s.chain.Root}, {Stage: 0, Parent: result.Digest()}} {
					visit := statistics.Visit{Identity: s.identity(statistics.KindVisit, v, 0), Covered: coverage.Coverage{Spans: s.plan.Spans}.Summary()}
					messages := arrowtest.Must(wire.RecordOf[float64](&visit).EncodeWithin(s.Chunk, s.Memory))(t)
					deliver(s.Topics.Statistics, messages...)
				}
			} else {
				log.topics[s.Topics.Weights] = weights
			}
			s.Log, s.subscription = log, script
			s.owner = groupOwner{make(chan struct{})}
			s.inbox.Begin(wire.Survey)
			v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
			if sum, err := s.gather(t.Context(), s.gathering(v, s.visitSum())); !errors.Is(err, errAccepted) {
				t.Errorf("gather returns %+v, %v; expected errAccepted", sum, err)
			}
		})
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
		if got := noticeUntrained(labels, test.untrained); got != test.want {
			t.Errorf("%q, %v:\n%s, expected\n%s", test.trained, test.untrained, got, test.want)
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

// newTestSolver returns a solver of one partition and two stages before the survey.
func newTestSolver(rec event.Recorder) *Solver {
	stage := solve.Defaults()
	stage.Features, stage.Link = stages.Defaults(), link.Softmax
	plan := &schemas.Plan{
		Spans: coverage.Spans{{Partition: 0, From: 0, To: 1}}, Stages: []schemas.Stage{stage, stage}, Segment: 1,
		Prepare: schemas.Prepare{Scale: prepare.ScaleNone},
	}
	return New(&protocol.Client{Memory: memory.DefaultAllocator, Topics: protocol.TopicsOf("test")}, nil, plan, 0, protocol.NewSoleOwner(0),
		Options{}, rec)
}

// deliver passes all messages of a record to the solver.
func deliver[T wire.Number](t *testing.T, s *Solver, r *wire.Record[T]) {
	t.Helper()
	messages := arrowtest.Must(r.EncodeWithin(wire.MaxMessage, memory.DefaultAllocator))(t)
	for _, m := range messages {
		s.collectOrSkip(m)
	}
}

// A record in the wrong precision does not count, and does not block the one in the right precision.
func TestWrongPrecisionIsSkipped(t *testing.T) {
	for _, id := range []wire.Identity{
		{Kind: statistics.KindSample, Stage: wire.Survey},
		{Kind: statistics.KindVisit, Stage: wire.Survey},
		{Kind: statistics.KindGram, Stage: 0},
		{Kind: statistics.KindVisit, Stage: 0},
		{Kind: statistics.KindSeal, Stage: 0},
	} {
		skipped := notices(0)
		s := newTestSolver(&skipped)
		s.inbox.Begin(wire.Survey)
		id.Run = s.run
		single, double := &wire.Record[float32]{Identity: id}, &wire.Record[float64]{Identity: id}
		wrong, right := func() { deliver(t, s, single) }, func() { deliver(t, s, double) }
		if isSingle(id) {
			wrong, right = right, wrong
		}
		if wrong(); s.inbox.holds(id) || skipped != 1 {
			t.Errorf("%v: in the wrong precision it counts, or nobody is told: %d notices", id, skipped)
		}
		if right(); !s.inbox.holds(id) || skipped != 1 {
			t.Errorf("%v: in the right precision it does not count: %d notices", id, skipped)
		}
		if isSingle(id) && s.inbox.single(id) == nil || !isSingle(id) && s.inbox.double(id) == nil {
			t.Errorf("%v: it is not there in the precision that is asked for", id)
		}
	}
}

// The first complete record of an identity counts. A different one is reported, an identical one is not, and seals may
// differ, because the same scores may have other offsets.
func TestFirstRecordCounts(t *testing.T) {
	for kind, want := range map[wire.Kind]notices{statistics.KindVisit: 1, statistics.KindSeal: 0} {
		skipped := notices(0)
		s := newTestSolver(&skipped)
		id := wire.Identity{Kind: kind, Run: s.run}
		with := func(v float64) *wire.Record[float64] {
			return &wire.Record[float64]{Identity: id, Tensors: wire.Tensors[float64]{wire.Vector(statistics.FieldSums, []float64{v})}}
		}
		for _, v := range []float64{1, 1, 2} {
			deliver(t, s, with(v))
		}
		if skipped != want {
			t.Errorf("%s: %d notices, expected %d", kind, skipped, want)
		}
		if r := s.inbox.double(id); r == nil || r.Tensors[0].Data[0] != 1 {
			t.Errorf("%s: %v counts, expected the first", kind, r)
		}
		deliver(t, s, with(1)) // it was reduced already
		if s.inbox.holds(id) {
			t.Errorf("%s: a repetition of what was reduced is kept", kind)
		}
	}
}

// Nothing is kept for solved stages, and for stages and partitions outside the plan.
func TestInboxKeepsWhatIsAskedFor(t *testing.T) {
	s := newTestSolver(event.Ignore{})
	visit := func(stage, partition int) wire.Identity {
		return wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: stage, Partition: partition}
	}
	for _, id := range []wire.Identity{visit(0, 0), visit(1, 0), visit(2, 0), visit(0, 1)} {
		deliver(t, s, &wire.Record[float64]{Identity: id})
		if kept, want := s.inbox.holds(id), id.Stage < 2 && id.Partition == 0; kept != want {
			t.Errorf("%v: kept is %v, expected %v", id, kept, want)
		}
	}
	s.inbox.Begin(1)
	if s.inbox.holds(visit(0, 0)) || !s.inbox.holds(visit(1, 0)) {
		t.Error("stage 1 begins: the inbox must keep what is of stage 1, and nothing else")
	}
	if deliver(t, s, &wire.Record[float64]{Identity: visit(0, 0)}); s.inbox.holds(visit(0, 0)) {
		t.Error("a record of stage 0 is kept while stage 1 is solved")
	}
}

// After the seal of a later stage, missing records of earlier stages are considered deleted, even if no later visit is
// left.
func TestSealOfALaterStageSaysWhatIsGone(t *testing.T) {
	s := &Solver{inbox: newInbox(), plan: &schemas.Plan{}}
	seal := wire.Identity{Kind: statistics.KindSeal, Stage: 0, Partition: 2}
	if lacks, err := s.lacks(seal); err != nil || !lacks {
		t.Errorf("the seal is missing: %v, %v; expected true", lacks, err)
	}
	s.inbox.noteVisit(wire.Identity{Kind: statistics.KindSeal, Stage: 1, Partition: 2})
	if _, err := s.lacks(seal); !errors.As(err, new(*goneError)) {
		t.Errorf("got error %v, expected a *GoneError", err)
	}
	if lacks, err := s.lacks(wire.Identity{Kind: statistics.KindVisit, Stage: 1, Visit: 3, Partition: 2}); err != nil || !lacks {
		t.Errorf("the visit of the same stage is missing: %v, %v; expected true", lacks, err)
	}
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
		arrowtest.NoError(t, f.add(first, &schemas.Share{Partitions: []int{0}}))
		if err := f.add(other, &schemas.Share{Partitions: []int{1}}); !errors.Is(err, errOtherPoint) {
			t.Errorf("%s: %v, expected ErrOtherPoint", name, err)
		}
		if err := f.add(visit(1, []float32{1, 2}, []float64{3}, false), &schemas.Share{Partitions: []int{1}}); err != nil {
			t.Errorf("%s: %v for the same point", name, err)
		}
	}
}

// Two solvers must write the same survey's result. So the findings of a chain's partitions are in partition order, not in
// the order of the records, which is arbitrary.
func TestSurveyIsInTheOrderOfPartitions(t *testing.T) {
	for _, arrivals := range [][]int{{0, 1, 2}, {2, 0, 1}} {
		s := newTestSolver(event.Ignore{})
		s.plan.Chain, s.plan.Group, s.plan.Warm, s.plan.Spans = &schemas.Chain{Number: 1}, 1, &schemas.Warm{}, nil
		for n := range arrivals {
			s.plan.Spans = append(s.plan.Spans, coverage.Span{Partition: n, To: 3})
		}
		s.visited, s.surveyed = s.plan.Shares(s.plan.Partitions()), s.plan.Shares(s.plan.Surveyed())
		var deliveries []*protocol.Delivery
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
			messages := arrowtest.Must(visit.Record().EncodeWithin(s.Chunk, s.Memory))(t)
			for _, m := range messages {
				deliveries = append(deliveries, &protocol.Delivery{Topic: s.Topics.Statistics, Message: protocol.Message{Message: m}})
			}
		}
		s.subscription = &scripted{deliveries: deliveries}
		s.inbox.Begin(wire.Survey)
		found := &surveyed{Findings: statistics.NewFindings()}
		v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
		found.sum = arrowtest.Must(s.gather(t.Context(), s.gathering(v, s.surveySum(found, &accumulate.Sample{})...)))(t)
		found.divide(s.plan)
		for n := range arrivals {
			if found.Skipped[n].Partition != n || found.Parts[n].Spans[0].Partition != n || found.increments[0].Covered[n].Spans[0].Partition != n ||
				found.increments[0].Skipped[n].Partition != n || found.Progress[n].Source != fmt.Sprint("source ", n) {
				t.Errorf("after arrivals %v: %+v", arrivals, found)
			}
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
	arrowtest.Must(state.add(t.Context(), records, &w.Moments))(t)
	arrowtest.NoError(t, state.flush(t.Context()))
	written := log.messages
	log.messages = nil
	arrowtest.NoError(t, protocol.ReleaseState(t.Context(), client, &protocol.StateWindow{Window: &w}))
	if len(written) < 4 || !slices.EqualFunc(log.messages, written, func(m, of wire.Message) bool { return m.Value == nil && m.Key == of.Key }) {
		t.Errorf("%d tombstones of %d messages", len(log.messages), len(written))
	}
}
