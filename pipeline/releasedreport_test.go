package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A process that was stopped while it followed a run goes on, although others have made newer versions meanwhile and
// released the report. While the version stays, it has the report.
func TestRunnerGoesOnBehindReleasedReports(t *testing.T) {
	stage := rffStage(link.Identity, 0, 1)
	stage.Features.Kind = "columns"
	sc := newChainScenario(t, chainExamples(), 100, chainOptions(), stage)
	s := sc.simulation(0)
	s.random = nil
	plans := map[string]*schemas.Plan{}
	s.log.onWrite = func(_ string, m wire.Message) {
		s.note(m)
		if m.Kind() != schemas.KindPlan || m.Value == nil {
			return
		}
		plan, id, err := protocol.DecodePlan(newCachingCodec(s.cache, 0), m)
		if err != nil {
			t.Error(err)
		}
		plans[id] = plan
	}
	s.startRoles(1, 1)
	s.startRunners(1)
	s.awaitRuns()
	s.stopActors()
	p := s.pipeline(unattended())
	l, err := p.ReadLedger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	released := 0
	for _, id := range s.made {
		r := newRunner(p, s.job, protocol.NewSoleOwner(1), simArithmetic, nil, event.Ignore{})
		r.work = func(ctx context.Context, plan *schemas.Plan, l *protocol.Ledger) (*schemas.Report, error) {
			f := dispatch.NewFollower(p, plan, l, event.Ignore{})
			f.End = &schemas.End{Run: id, State: schemas.Done}
			report, err := f.Follow(ctx)
			_, errVersion := p.Version(ctx, id)
			if gone := errors.As(err, new(*dispatch.ReportGoneError)); gone != (errVersion != nil) {
				t.Errorf("run %s: %v, its version: %v", id, err, errVersion)
			} else if gone {
				released++
			}
			return report, err
		}
		if err := r.execute(t.Context(), plans[id], l); err != nil {
			t.Errorf("run %s: %v", id, err)
		}
	}
	if released == 0 || released == len(s.made) {
		t.Errorf("of %d reports %d are released: expected some", len(s.made), released)
	}
}
