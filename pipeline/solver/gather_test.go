package solver

import (
	"errors"
	"testing"

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
	s := New(&run.Client{Codec: run.NewCodec(nil, 0)}, nil, plan, 0, run.NewAlone(0), event.Ignore{})
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
		if err := s.take(m); err != nil {
			t.Fatal(err)
		}
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
