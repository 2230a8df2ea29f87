package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// findHead finds the newest version of the chain, the state of its run, and the number of failed runs that continue from
// it, all in one ledger without unfinished runs.
func (r *runner) findHead(ctx context.Context, l *protocol.Ledger) error {
	head, err := r.newestOfChain(ctx, l)
	if err != nil {
		return err
	}
	r.chain.number, r.chain.attempt = 1, 0
	if head != nil {
		if err := topics.CheckExamples(r.Pipeline, head.Plan, fmt.Sprintf("version %d", head.Version)); err != nil {
			return err
		}
		r.chain.number = head.Plan.Chain.Number + 1
	}
	if last := l.Chained(); last != nil && last.Number >= r.chain.number {
		r.chain.number, r.chain.attempt = last.Number, last.Attempt+1
	}
	switch {
	case head == nil:
		r.looksForClasses()
		removed := r.chain.head != nil
		r.chain, r.earlier = chainState{number: r.chain.number, attempt: r.chain.attempt}, nil
		if r.backlog.ends == nil || removed {
			bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
			if err != nil {
				return err
			}
			var begins []int64
			for _, span := range bounds {
				begins = append(begins, span.From)
			}
			r.backlog.begin(begins, slices.Clone(begins), nil)
		}
		return nil
	case r.chain.head != nil && r.chain.head.Run == head.Run:
		return nil
	}
	follows := head.Run == r.made && len(r.backlog.ends) > 0
	known := r.chain.stored
	if parent := head.Plan.Chain.Parent; r.chain.head != nil && parent != nil && parent.Run == r.chain.head.Run {
		r.earlier = append([]earlier{{r.chain.head.Plan, known}}, r.earlier...)
	} else {
		r.earlier = nil
	}
	r.looksForClasses()
	r.chain = chainState{head: head, number: r.chain.number, attempt: r.chain.attempt}
	if r.choose != nil {
		r.keepChoice(head.Plan.Stages, head.Plan.Prepare)
	}
	if head.Window != nil {
		r.chain.stored, err = protocol.ReadStateWindow(ctx, r.Client, *head.Window, known)
	}
	if err != nil && !errors.Is(err, wire.ErrDamaged) { // a damaged window is gone
		return err
	}
	var window *schemas.Window
	if r.chain.stored != nil {
		window = r.chain.stored.Window
	} else if window, err = r.lostWindow(ctx); err != nil {
		return err
	}
	r.chain.window = window
	r.chain.least = window.AtLeast
	if r.chain.renews {
		if r.chain.least, err = r.offeredRows(ctx, l); err != nil {
			return err
		}
	}
	r.release(ctx)
	if follows {
		r.backlog.advance(head.Plan)
		return nil
	}
	r.proven = false
	r.backlog.begin(slices.Clone(head.Plan.Chain.Begins), slices.Clone(r.chain.window.Ends), head.Plan.Chain.Marks)
	return nil
}

// newestOfChain returns the manifest of the newest complete version of a chain; nil if there is none.
func (r *runner) newestOfChain(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	newest := r.Newest()
	for _, place := range slices.Backward(l.Versions()) {
		if newest != nil && newest.Manifest.Run == place.Run && newest.Manifest.Plan.Chain != nil {
			return newest.Manifest, nil
		}
		if r.chain.head != nil && r.chain.head.Run == place.Run {
			return r.chain.head, nil
		}
		m, _, err := r.ModelAt(ctx, place, nil)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Manifest.Plan.Chain != nil {
			r.Remember(m) // an update of this process needs it
			return m.Manifest, nil
		}
	}
	return nil, nil
}

// passOver reports once that a version is incomplete.
func (r *runner) passOver(place schemas.Place, why error) {
	if !r.passed[place.Version] {
		r.passed[place.Version] = true
		r.rec.Record(event.Incomplete{Version: place.Version, Why: why})
	}
}

// offered returns the manifest of the newest offered version that exists; nil if there is none.
func (r *runner) offered(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	for _, place := range slices.Backward(l.Versions()) {
		if place.Withheld {
			continue
		}
		if r.chain.head != nil && place.Run == r.chain.head.Run {
			return r.chain.head, nil
		}
		m, err := r.Version(ctx, place.Run)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		return m, err
	}
	return nil, nil
}

// offeredRows returns the number of rows in the window of the version for subscribers; 0 if unknown.
func (r *runner) offeredRows(ctx context.Context, l *protocol.Ledger) (int64, error) {
	m, err := r.offered(ctx, l)
	if err != nil || m == nil {
		return 0, err
	}
	return m.WindowRows, nil
}

// earlier is a version of a chain before the newest.
type earlier struct {
	plan   *schemas.Plan
	window *protocol.StateWindow // nil if it is gone
}

// release deletes records that the newest version of the chain and its parent do not need: the state of the version before
// these, and the statistics and weights of earlier runs. Errors have no effect: the next version, or the next start,
// repeats it.
func (r *runner) release(ctx context.Context) {
	if err := r.tryRelease(ctx); err != nil && ctx.Err() == nil && !r.refused {
		r.refused = errors.As(err, new(*kafkalog.AccessError)) // permanently
		event.Notice(r.rec, "leftovers of earlier runs stay until a later run: %v", err)
	}
}

func (r *runner) tryRelease(ctx context.Context) error {
	if err := r.findEarlier(ctx); err != nil || len(r.earlier) < 2 || r.chain.stored == nil || r.earlier[0].window == nil {
		return err
	}
	parent, gone := r.earlier[0], r.earlier[1]
	if gone.window != nil {
		if err := protocol.ReleaseState(ctx, r.Client, gone.window, parent.window, r.chain.stored); err != nil {
			return err
		}
	}
	r.earlier = r.earlier[:1]
	return protocol.ReleaseStatistics(ctx, r.Client, parent.plan, r.chain.head.Plan)
}

// findEarlier reads the two versions before the newest, if they exist and are not known yet.
func (r *runner) findEarlier(ctx context.Context) error {
	for next := r.chain.head.Plan.Chain.Parent; len(r.earlier) < 2 && next != nil; {
		if n := len(r.earlier); n > 0 {
			if next = r.earlier[n-1].plan.Chain.Parent; next == nil {
				return nil
			}
		}
		manifest, err := r.Version(ctx, next.Run)
		if protocol.IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		e := earlier{plan: manifest.Plan}
		if manifest.Window != nil {
			if e.window, err = protocol.ReadStateWindow(ctx, r.Client, *manifest.Window, nil); err != nil {
				return err
			}
		}
		r.earlier = append(r.earlier, e)
	}
	return nil
}
