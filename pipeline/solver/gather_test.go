package solver

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
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
	s := New(&protocol.Client{Codec: protocol.NewCodec(nil, 0)}, nil, plan, 0, protocol.NewSoleOwner(0), Options{}, event.Ignore{})
	parent := accept(t, s, surveyResult(s))
	final := func(stage int) *wire.Record[float32] {
		return (&schemas.Weights{Identity: wire.Identity{Kind: schemas.KindWeights, Run: s.run, Stage: stage, Visit: 1, Parent: parent},
			Final: &schemas.Final{}}).Record()
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
	messages := arrowtest.Must(s.Codec.EncodeDouble(later.Record()))(t)
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
	messages := arrowtest.Must(s.Codec.EncodeSingle(r))(t)
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
		return (&statistics.Visit{Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey, Parent: s.chain.Root},
			Covered: coverage.Coverage{Spans: s.plan.Spans[:1]}}).Record()
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
				messages, err := s.Codec.EncodeDouble(visit(s))
				arrowtest.NoError(t, err)
				for _, m := range messages {
					deliver(m)
				}
			}
			s.subscription = &scripted{deliveries: deliveries, late: test.late}
			plan, err := s.plan.Messages()
			arrowtest.NoError(t, err)
			s.Log = plansLog{messages: plan}
			s.scratch = &scratch{}
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
		messages, err := s.Codec.EncodeSingle(survey)
		arrowtest.NoError(t, err)
		failure := &schemas.Failure{Run: s.run, Parent: of(s, survey), Partitions: []int{0}, Reason: "offsets are gone"}
		s.subscription = &scripted{deliveries: []*protocol.Delivery{
			{Topic: s.Topics.Statistics, Message: protocol.Message{Message: failure.Message()}}, {Topic: s.Topics.Weights, Message: protocol.Message{Message: messages[0]}},
		}}
		for range 2 {
			arrowtest.Must(s.receive(t.Context(), time.Second))(t)
		}
		s.scratch = &scratch{}
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
	s.scratch = &scratch{}
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
	return (&statistics.SurveyResult{
		Identity: wire.Identity{Kind: statistics.KindPrepare, Run: s.run, Stage: wire.Survey, Parent: s.chain.Root},
		Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, []float32{0}), wire.Vector(statistics.TensorScale, []float32{1}),
			wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
		},
	}).Record()
}

// Workers do not write again what is on the statistics topic. So a waiting solver finds messages at offsets that it has
// already read: the topic was truncated and written again, or the solver has dropped a damaged or incomplete record.
func TestSolverFindsWhatItHasMissed(t *testing.T) {
	visit := func(s *Solver, partition int) wire.Message {
		span := coverage.Spans{{Partition: partition, To: 1}}
		messages := arrowtest.Must(s.Codec.EncodeDouble((&statistics.Visit{
			Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey, Partition: partition, Parent: s.chain.Root},
			Covered:  coverage.Coverage{Spans: span},
		}).Record()))(t)
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
			s.scratch = &scratch{}
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
		s.Log, s.scratch, s.subscription = plansLog{messages: plan}, &scratch{}, &scripted{late: 3}
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
			s.scratch = &scratch{}
			s.inbox.Begin(wire.Survey)
			v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
			if test.begun {
				deliver(t, s, (&statistics.Visit{Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey,
					Parent: s.chain.Root}}).Record())
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
