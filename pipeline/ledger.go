package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// ledger is what the plans topic says: the runs in the order of their plans,
// how they ended, and the sources that are on the examples topic.
type ledger struct {
	plans   []*schemas.Plan // the first of each run
	ends    map[string]*schemas.End
	sources []schemas.SourceSeal // in the order of seals
	damaged []error              // why messages were passed over
}

func (d desk) ledger(ctx context.Context) (*ledger, error) {
	l := &ledger{ends: map[string]*schemas.End{}}
	err := d.each(ctx, d.plans, 0, func(r kafkalog.Message) error {
		if err := l.add(r); err != nil {
			l.damaged = append(l.damaged, fmt.Errorf("%s[0]@%d: %w", d.plans, r.Offset, err))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	return l, nil
}

func (l *ledger) add(r kafkalog.Message) error {
	if r.Value == nil {
		return nil
	}
	m := message(r)
	switch m.Kind() {
	case schemas.KindPlan:
		plan, err := schemas.DecodeJSON[schemas.Plan](m)
		if err != nil {
			return err
		}
		if err := sound(plan); err != nil {
			return err
		}
		if l.plan(plan.Run()) == nil {
			l.plans = append(l.plans, plan)
		}
	case schemas.KindEnd:
		end, err := schemas.DecodeJSON[schemas.End](m)
		if err != nil {
			return err
		}
		if l.ends[end.Run] == nil {
			l.ends[end.Run] = end
		}
	case schemas.KindSource:
		seal, err := schemas.DecodeJSON[schemas.SourceSeal](m)
		if err != nil {
			return err
		}
		l.sources = append(l.sources, *seal)
	}
	return nil
}

func (l *ledger) plan(run string) *schemas.Plan {
	for _, p := range l.plans {
		if p.Run() == run {
			return p
		}
	}
	return nil
}

// unfinished are the runs without an end, in the order of their plans.
func (l *ledger) unfinished() (plans []*schemas.Plan) {
	for _, p := range l.plans {
		if l.ends[p.Run()] == nil {
			plans = append(plans, p)
		}
	}
	return plans
}

// ended is how many runs of that content have ended.
func (l *ledger) ended(content schemas.Digest) (n int) {
	for _, e := range l.ends {
		if e.Content == content {
			n++
		}
	}
	return n
}

// ids are the sources that are sealed, each once, in the order of their first
// seals.
func (l *ledger) ids() (ids []string) {
	for _, s := range l.sources {
		if !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
