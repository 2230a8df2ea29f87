package pipeline

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// A solver that begins again behind other solvers' weights hears of a visit that nobody asks for any more. A seal that
// was to come before that visit and is not there was deleted: to wait for it would be to wait for ever.
func TestSealThatIsGone(t *testing.T) {
	plan := &schemas.Plan{
		Name: "gone", Foreign: true, Spans: schemas.Spans{{Partition: 0, From: 0, To: 1}},
		Stages: []schemas.Stage{stage(link.Softmax, 4, 3), stage(link.Softmax, 4, 3)},
	}
	s := newSolver(newDesk(nil, "gone", nil), plan, 0, newAlone(0), ignored{})
	s.chain.survey = &schemas.SurveyResult{}
	s.chain.weights = []*schemas.Weights{
		{Identity: schemas.Identity{Kind: schemas.KindWeights, Stage: 0, Visit: 1}, Final: &schemas.Final{}},
		{Identity: schemas.Identity{Kind: schemas.KindWeights, Stage: 1, Visit: 1}, Final: &schemas.Final{}},
	}
	s.chain.digests = []schemas.Digest{"prepared", "first", "second"}

	sealed := visit{0, 0, "first"}
	lacks := func() (*schemas.Identity, error) { return s.lacking(sealed, 0, []schemas.Kind{schemas.KindSeal}) }
	if id, err := lacks(); id == nil || err != nil {
		t.Fatalf("before anything has come: %v, %v", id, err)
	}
	later := schemas.Visit{Identity: schemas.Identity{Kind: schemas.KindVisit, Run: s.run, Stage: 1, Parent: "first"}}
	messages, err := s.codec.double(later.Record())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := s.take(m); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := lacks(); !errors.As(err, new(*GoneError)) {
		t.Errorf("behind the next stage's visit: %v, %v", id, err)
	}
}
