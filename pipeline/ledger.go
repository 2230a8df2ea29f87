package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// ledger is what the plans topic says: the runs in the order of their plans,
// how they ended, and the sources that are on the examples topic.
type ledger struct {
	codec   codec
	topic   string
	plans   []*schemas.Plan // the first of each run
	runs    []string        // of plans
	ends    map[string]*schemas.End
	sources []schemas.SourceSeal // in the order of seals
	damaged []error              // why messages were passed over
	next    int64                // the offset after what it has read
}

// ledger is what the topic says now.
func (d desk) ledger(ctx context.Context) (*ledger, error) {
	l := &ledger{codec: d.codec, topic: d.topics.plans}
	first, end, err := d.log.Bounds(ctx, d.plans, 0)
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	err = d.between(ctx, d.plans, 0, first, end, func(r entry) error {
		if err := l.add(r); err != nil {
			l.damaged = append(l.damaged, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	l.next = end
	return l, nil
}

// tell tells of the messages that were passed over.
func (l *ledger) tell(rec Recorder) {
	for _, damaged := range l.damaged {
		passOver(rec, "plans", damaged)
	}
}

// add takes the next message of the topic.
func (l *ledger) add(r entry) error {
	l.next = r.offset + 1
	if err := l.take(r); err != nil {
		return fmt.Errorf("%s[0]@%d: %w", l.topic, r.offset, err)
	}
	return nil
}

func (l *ledger) take(r entry) error {
	if r.Value == nil {
		return nil
	}
	if l.ends == nil {
		l.ends = map[string]*schemas.End{}
	}
	m := r.Message
	switch m.Kind() {
	case schemas.KindPlan:
		plan, run, err := l.codec.plan(m)
		if err != nil {
			return err
		}
		if !slices.Contains(l.runs, run) {
			l.plans, l.runs = append(l.plans, plan), append(l.runs, run)
		}
	case schemas.KindEnd:
		end, err := schemas.DecodeJSON[schemas.End](m)
		if err != nil {
			return err
		}
		if known := l.ends[end.Run]; known == nil || outranks(end.State, known.State) {
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

// outranks tells which of two ends of a run counts, whatever order they are in:
// one that was written twice stands where compaction leaves it. A version that is
// there stays, as somebody may use it.
func outranks(state, known string) bool {
	rank := []string{schemas.Failed, schemas.Cancelled, schemas.Done}
	return slices.Index(rank, state) > slices.Index(rank, known)
}

// isEndOf tells whether a message ends a run.
func isEndOf(m schemas.Message, run string) bool {
	return m.Kind() == schemas.KindEnd && m.Get("run") == run && endOf(m) != nil
}

// endOf is the end that a message says; nil if it is none, or damaged.
func endOf(m schemas.Message) *schemas.End {
	if m.Kind() != schemas.KindEnd {
		return nil
	}
	end, err := schemas.DecodeJSON[schemas.End](m)
	if err != nil {
		return nil
	}
	return end
}

func (l *ledger) plan(run string) *schemas.Plan {
	if i := slices.Index(l.runs, run); i >= 0 {
		return l.plans[i]
	}
	return nil
}

// run is the id of one of its plans' runs.
func (l *ledger) run(p *schemas.Plan) string { return l.runs[slices.Index(l.plans, p)] }

// unfinished are the runs without an end, in the order of their plans.
func (l *ledger) unfinished() (plans []*schemas.Plan) {
	for i, p := range l.plans {
		if l.ends[l.runs[i]] == nil {
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
