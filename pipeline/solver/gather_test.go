package solver

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// A solver that takes over a run receives a visit of a stage whose weights are accepted already. A seal that belongs before that
// visit has not come, so it was deleted, and the solver must not wait for it for ever.
func TestSealThatIsGone(t *testing.T) {
	stage := solve.Defaults()
	stage.Features = stages.Defaults()
	plan := &schemas.Plan{
		Name: "gone", Foreign: true, Spans: schemas.Spans{{Partition: 0, From: 0, To: 1}},
		Stages: []schemas.Stage{stage, stage},
	}
	s := New(&run.Client{Codec: run.NewCodec(nil, 0)}, nil, plan, 0, run.NewSoleOwner(0), Options{}, event.Ignore{})
	parent := accept(t, s, (&schemas.SurveyResult{
		Identity: schemas.Identity{Kind: schemas.KindPrepare, Run: s.run, Stage: schemas.Survey, Parent: s.chain.Root},
		Preparation: schemas.Tensors[float32]{
			schemas.Vector(schemas.TensorCenter, []float32{0}), schemas.Vector(schemas.TensorScale, []float32{1}),
			schemas.Vector(schemas.TensorSpread, []float32{1}), schemas.Words[float32](schemas.TensorLabels, []string{"a", "b"}),
		},
	}).Record())
	final := func(stage int) *schemas.Record[float32] {
		return (&schemas.Weights{Identity: schemas.Identity{Kind: schemas.KindWeights, Run: s.run, Stage: stage, Visit: 1, Parent: parent}, Final: &schemas.Final{}}).Record()
	}
	first := accept(t, s, final(0))
	parent = first
	accept(t, s, final(1))

	sealed := run.Visit{Stage: 0, Parent: first}
	missing := func() (*schemas.Identity, error) { return s.missing(sealed, 0, []schemas.Kind{schemas.KindSeal}) }
	if id, err := missing(); id == nil || err != nil {
		t.Fatalf("before anything has come: %v, %v", id, err)
	}
	later := schemas.Visit{Identity: schemas.Identity{Kind: schemas.KindVisit, Run: s.run, Stage: 1, Parent: first}}
	messages, err := s.Codec.EncodeDouble(later.Record())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		s.take(m)
	}
	if id, err := missing(); !errors.As(err, new(*GoneError)) {
		t.Errorf("behind the next stage's visit: %v, %v", id, err)
	}
}

// accept has the solver's chain accept a record, and returns the record's digest.
func accept(t *testing.T, s *Solver, r *schemas.Record[float32]) schemas.Digest {
	t.Helper()
	messages, err := s.Codec.EncodeSingle(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, err := s.chain.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	if s.chain.Head() != r.Digest() {
		t.Fatalf("%v is not accepted", r.Identity)
	}
	return r.Digest()
}

// plansLog is a log with messages on the plans topic, and nothing else.
type plansLog struct {
	run.Log
	messages []schemas.Message
}

func (l plansLog) Bounds(context.Context, string, int) (first, end int64, err error) {
	return 0, int64(len(l.messages)), nil
}

func (l plansLog) Range(_ string, _ int, from, to int64) run.Reader {
	return &plansReader{l.messages[from:to], from}
}

// plansReader reads the messages of a plansLog.
type plansReader struct {
	messages []schemas.Message
	offset   int64
}

func (r *plansReader) Next(context.Context) (run.Message, error) {
	if len(r.messages) == 0 {
		return run.Message{}, io.EOF
	}
	m := run.Message{Message: r.messages[0], Offset: r.offset}
	r.messages, r.offset = r.messages[1:], r.offset+1
	return m, nil
}

func (r *plansReader) Close() error { return nil }

// A worker's failure ends the run if it is of the visit that is due and nobody makes the visit within patience. It does not if the
// worker did not know what is due, or if another worker makes the visit.
func TestFailureThatCounts(t *testing.T) {
	visit := func(s *Solver) *schemas.Record[float64] {
		return (&schemas.Visit{Identity: schemas.Identity{Kind: schemas.KindVisit, Run: s.run, Stage: schemas.Survey, Parent: s.chain.Root},
			Covered: schemas.Coverage{Spans: s.plan.Spans[:1]}}).Record()
	}
	for name, test := range map[string]struct {
		alone     bool
		partition int // of the failure; the plan has 0 and 1, and nobody makes the visit of 1
		parent    func(*Solver) schemas.Digest
		come      bool // the visit of another worker comes
		late      int  // waits that pass before the end of the test
		fails     bool
	}{
		"alone":             {true, 0, func(s *Solver) schemas.Digest { return s.chain.Root }, false, 0, true},
		"nobody else":       {false, 0, func(s *Solver) schemas.Digest { return s.chain.Root }, false, 1, true},
		"within patience":   {false, 0, func(s *Solver) schemas.Digest { return s.chain.Root }, false, 0, false},
		"another has it":    {false, 0, func(s *Solver) schemas.Digest { return s.chain.Root }, true, 3, false},
		"of the other":      {false, 1, func(s *Solver) schemas.Digest { return s.chain.Root }, true, 1, true},
		"of another visit":  {false, 0, func(*Solver) schemas.Digest { return "earlier" }, false, 3, false},
		"no failure at all": {false, 0, nil, false, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			s.plan.Spans = append(s.plan.Spans, schemas.Span{Partition: 1, To: 1})
			if !test.alone {
				s.owner = groupOwner{make(chan struct{})}
			}
			var deliveries []*run.Delivery
			deliver := func(m schemas.Message) {
				deliveries = append(deliveries, &run.Delivery{Topic: s.Topics.Statistics, Message: run.Message{Message: m}})
			}
			if test.parent != nil {
				deliver((&schemas.Failure{Run: s.run, Parent: test.parent(s), Partitions: []int{test.partition}, Reason: "offsets are gone"}).Message())
			}
			if test.come {
				messages, err := s.Codec.EncodeDouble(visit(s))
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range messages {
					deliver(m)
				}
			}
			s.subscription = &scripted{deliveries: deliveries, late: test.late}
			plan, err := s.plan.Messages()
			if err != nil {
				t.Fatal(err)
			}
			s.Log = plansLog{messages: plan}
			s.scratch = &scratch{}
			s.inbox.begin(schemas.Survey)
			v := run.Visit{Stage: schemas.Survey, Parent: s.chain.Root}
			_, err = s.gather(t.Context(), s.gathering(v, s.visitSum(v, false)))
			var failure *FailureError
			if failed := errors.As(err, &failure); failed != test.fails {
				t.Errorf("gather ends with %v, expected a failure: %v", err, test.fails)
			}
		})
	}
}

// groupOwner owns what other processes may own too.
type groupOwner struct{ changed chan struct{} }

func (groupOwner) Owned() []int                      { return []int{0} }
func (g groupOwner) Changed() <-chan struct{}        { return g.changed }
func (groupOwner) Commit(map[int]int64, func(error)) {}
func (groupOwner) Err() error                        { return nil }

// scripted is a subscription with some deliveries, and then some waits that pass. Then the test is over.
type scripted struct {
	deliveries []*run.Delivery
	late       int
	after      *run.Delivery // comes after each wait but the last; may be nil
	waited     bool
}

var errOver = errors.New("the test is over")

func (s *scripted) Next(context.Context, time.Duration) (*run.Delivery, bool, error) {
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

// A solver says that it waits for a worker of another process. It does not say it of the worker of its own process, which is alone: that would be wrong,
// as a block of images takes minutes.
func TestWaitingIsSaid(t *testing.T) {
	for _, alone := range []bool{true, false} {
		said := notices(0)
		s := newTestSolver(&said)
		if !alone {
			s.owner = groupOwner{make(chan struct{})}
		}
		plan, err := s.plan.Messages()
		if err != nil {
			t.Fatal(err)
		}
		s.Log, s.scratch, s.subscription = plansLog{messages: plan}, &scratch{}, &scripted{late: 3}
		s.inbox.begin(schemas.Survey)
		v := run.Visit{Stage: schemas.Survey, Parent: s.chain.Root}
		if _, err := s.gather(t.Context(), s.gathering(v, s.visitSum(v, false))); !errors.Is(err, errOver) {
			t.Fatalf("gather ends with %v", err)
		}
		if want := map[bool]notices{true: 0, false: 3}[alone]; said != want {
			t.Errorf("alone %v: %d notices, expected %d", alone, said, want)
		}
	}
}

// A solver gives a run up if no worker takes it up, and waits for ever for one that has begun, and for one that surveys for long.
func TestSolverGivesUp(t *testing.T) {
	for name, test := range map[string]struct{ begun, surveys bool }{"no worker": {}, "a worker": {begun: true}, "a long survey": {surveys: true}} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			s.owner, s.GiveUp = groupOwner{make(chan struct{})}, 100*time.Second
			s.scratch = &scratch{}
			s.inbox.begin(schemas.Survey)
			v := run.Visit{Stage: schemas.Survey, Parent: s.chain.Root}
			if test.begun {
				take(t, s, (&schemas.Visit{Identity: schemas.Identity{Kind: schemas.KindVisit, Run: s.run, Stage: schemas.Survey, Parent: s.chain.Root}}).Record())
			}
			plan, err := s.plan.Messages()
			if err != nil {
				t.Fatal(err)
			}
			s.Log = plansLog{messages: plan}
			script := &scripted{late: 5} // 30 s, then as long again and twice as long
			if test.surveys {
				claim := schemas.Claim{Run: s.run}
				script.after = &run.Delivery{Topic: s.Topics.Statistics, Message: run.Message{Message: claim.Message()}}
			}
			s.subscription = script
			_, err = s.gather(t.Context(), s.gathering(v, part{kinds: []schemas.Kind{schemas.KindSample}}))
			if unclaimed := errors.As(err, new(*run.UnclaimedError)); unclaimed == (test.begun || test.surveys) {
				t.Errorf("gather ends with %v", err)
			}
		})
	}
}
