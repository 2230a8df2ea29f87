package pipeline

import (
	"context"
	"errors"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

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
	if err := r.findEarlier(ctx); err != nil || len(r.earlier) < 2 || r.chain.Stored == nil || r.earlier[0].window == nil {
		return err
	}
	parent, gone := r.earlier[0], r.earlier[1]
	if gone.window != nil {
		if err := protocol.ReleaseState(ctx, r.Client, gone.window, parent.window, r.chain.Stored); err != nil {
			return err
		}
	}
	r.earlier = r.earlier[:1]
	return protocol.ReleaseStatistics(ctx, r.Client, parent.plan, r.chain.Head.Plan)
}

// findEarlier reads the two versions before the newest, if they exist and are not known yet.
func (r *runner) findEarlier(ctx context.Context) error {
	for next := r.chain.Head.Plan.Chain.Parent; len(r.earlier) < 2 && next != nil; {
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
