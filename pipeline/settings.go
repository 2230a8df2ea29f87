package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// compareSettings reports the keys of the job that differ from those of the newest plan of the chain, once: of several
// processes that retrain a pipeline, each makes versions by its own configuration while it is the active one.
func (r *runner) compareSettings(ctx context.Context) error {
	plan, err := r.newestPlan(ctx)
	if err != nil || plan == nil || plan.Chain == nil || len(plan.Chain.Settings) == 0 {
		return err
	}
	var keys []string
	for _, pair := range [][2][]schemas.Setting{{r.settings, plan.Chain.Settings}, {plan.Chain.Settings, r.settings}} {
		for _, s := range pair[0] {
			if !slices.Contains(pair[1], s) {
				keys = append(keys, s.Key)
			}
		}
	}
	slices.Sort(keys)
	differs := strings.Join(slices.Compact(keys), ", ")
	if differs != "" && differs != r.differs {
		event.Notice(r.rec, "this configuration differs from that of run %s: %s. Versions are made by the configuration of the active "+
			"process: give all that run a pipeline the same one", plan.Run(), differs)
	}
	r.differs = differs
	return nil
}

// newestPlan returns the plan of the unfinished run, or else of the newest version for subscribers; nil: there is none.
func (r *runner) newestPlan(ctx context.Context) (*schemas.Plan, error) {
	l, err := r.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	for _, plan := range l.Unfinished() {
		if plan.Chain != nil {
			return plan, nil
		}
	}
	m, err := r.Version(ctx, protocol.Latest)
	if protocol.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m.Plan, nil
}
