package solver

import (
	"errors"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

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
	return New(&protocol.Client{Codec: protocol.NewCodec(nil, 0), Topics: protocol.TopicsOf("test")}, nil, plan, 0, protocol.NewSoleOwner(0),
		Options{}, rec)
}

// deliver passes all messages of a record to the solver.
func deliver[T wire.Number](t *testing.T, s *Solver, r *wire.Record[T]) {
	t.Helper()
	messages := arrowtest.Must(r.Encode(memory.DefaultAllocator))(t)
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
