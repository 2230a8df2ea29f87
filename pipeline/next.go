package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// next waits until the next run is due, and returns its plan; nil if untilEnd is set and the topic has no more.
func (r *runner) next(ctx context.Context, untilEnd bool) (*schemas.Plan, error) {
	if r.chain.Window != nil && r.job.Retrain.OnNewClass == topics.NewClassStop && len(r.chain.NewClasses(r.job.Retrain)) > 0 {
		return nil, &NewClassError{r.chain.NewClasses(r.job.Retrain)}
	}
	var first time.Time
	for {
		l, err := r.ReadLedger(ctx)
		if err != nil {
			return nil, err
		}
		bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
		if err != nil {
			return nil, err
		}
		sealed, err := topics.SealedBy(ctx, r.Pipeline, l)
		if err != nil {
			return nil, err
		}
		if !r.proven || r.backlog.Shrunk(bounds) {
			if err := r.prove(ctx, l, bounds); err != nil {
				return nil, err
			}
			r.backlog.Shrink(bounds)
			r.proven = true
		}
		r.backlog.Refresh(bounds)
		if err := r.keepWhatIsHeld(ctx, bounds); err != nil {
			return nil, err
		}
		sources := r.sources(sealed, bounds)
		if r.chain.Window != nil && !r.chain.Renews && r.chain.Window.Rows() == 0 && r.hasLearnt(r.chain.Head.Run) {
			r.chain.BeginAgain() // there is nothing to fit anew
		}
		if r.chain.Window == nil && len(r.only) > 0 {
			r.looksForClasses()
		}
		due := r.chain.Window != nil && !r.chain.Restarts(r.job.Retrain) && r.chain.FullIsDue(r.job.Retrain)
		waits, err := r.waitsToForget(ctx, bounds)
		if err != nil {
			return nil, err
		}
		if len(r.only) == 0 && (due || r.chain.Window != nil && !r.chain.Restarts(r.job.Retrain) && r.hasLearnt(r.chain.Head.Run) && !waits) {
			if plan, err := r.fullPlan(ctx, l, sealed, sources); err != nil || plan != nil {
				return plan, err
			}
			waits = false
		}
		r.backlog.Follow(sources, r.chain.Progress(), bounds)
		spans, found, whole, err := r.backlog.Cut(ctx, r.job.Retrain.Rows, r.findsClasses(), r.only)
		if errors.As(err, new(*kafkalog.DeletedError)) { // since the bounds were read
			r.backlog.Restart()
			continue
		}
		if err != nil {
			return nil, err
		}
		r.rec.Record(r.backlog.Behind())
		late := !first.IsZero() && r.job.Retrain.After > 0 && r.Clock.Since(first) >= r.job.Retrain.After
		switch {
		case len(spans) > 0 && r.chain.Window == nil && !r.backlog.AnyCounts(spans): // the first run needs an example
		case (found > 0 || r.chain.Window != nil) && r.findsClasses() && !r.backlog.TellApart(r.backlog.LabelsOf(spans, r.only)):
			if err := r.waitForClasses(spans, found, untilEnd); err != nil {
				return nil, err
			}
		case len(spans) > 0 && (whole || untilEnd || late):
			if r.chain.Window == nil {
				return r.firstPlan(ctx, l, sealed, sources, spans, found)
			}
			return r.updatePlan(ctx, l, sealed, sources, spans, found)
		}
		if waits && untilEnd {
			plan, err := r.fullPlan(ctx, l, sealed, sources)
			if err == nil && len(r.only) > 0 {
				err = r.waitForClasses(nil, 0, true)
			}
			return plan, err
		}
		if untilEnd {
			return nil, nil
		}
		if (len(spans) > 0 || waits) && first.IsZero() {
			first = r.Clock.Now()
		}
		if waits && (r.job.Retrain.After == 0 || r.Clock.Since(first) >= r.job.Retrain.After) { // no update has come
			if plan, err := r.fullPlan(ctx, l, sealed, sources); err != nil || plan != nil {
				return plan, err
			}
		}
		if err := r.await(ctx, l, sealed, first); err != nil {
			return nil, err
		}
		if err := r.checkActive(); err != nil {
			return nil, err
		}
		if err := r.readForgotten(ctx); err != nil {
			return nil, err
		}
	}
}

// await waits for more examples, for what comes on the plans topic after a ledger, for the seal of a source, or for rows to forget; but not
// longer than an update may be late.
func (r *runner) await(ctx context.Context, l, sealed *protocol.Ledger, first time.Time) error {
	positions := heed.SaidAfter(r.Pipeline, sealed, r.forgotten)
	if sealed != l {
		positions = append(positions, protocol.Position{Topic: r.Topics.Plans, Offset: l.Next, Compacted: true})
	}
	for n, to := range r.backlog.Bounds() {
		positions = append(positions, protocol.Position{Topic: r.Topics.Examples, Partition: n, Offset: to, Compacted: true})
	}
	subscription := r.Log.Subscribe(ctx, r.owner.Changed(), positions...)
	defer subscription.Close()
	timeout := protocol.MaxPatience
	if !first.IsZero() && r.job.Retrain.After > 0 {
		timeout = min(timeout, max(r.Clock.Until(first.Add(r.job.Retrain.After)), 0))
	}
	_, _, err := subscription.Next(ctx, timeout)
	if errors.As(err, new(*kafkalog.DeletedError)) { // the next look at the bounds says what is there
		return nil
	}
	return err
}

// NewClassError means that examples have labels that are not classes, and that the configuration stops the run then.
type NewClassError struct{ Labels []string }

// Error names the labels.
func (e *NewClassError) Error() string {
	return fmt.Sprintf("examples have labels %q, which are not classes of the newest version (retrain.on_new_class: stop): set it "+
		"to full to learn them, or to quarantine to exclude them", e.Labels)
}

// sources returns a seal of each source of which a topic with those bounds has something left. If the chain has begun to count a source, it
// is the one that it has begun with: of two ingests of the same rows only one counts.
func (r *runner) sources(l *protocol.Ledger, bounds []coverage.Span) []schemas.SourceSeal {
	seals := planning.Remaining(l, bounds)
	for i := range seals {
		for _, other := range l.Seals(seals[i].ID) {
			begun := slices.ContainsFunc(r.chain.Progress(), func(p schemas.SourceProgress) bool {
				return p.Source == other.ID &&
					p.Attempt == other.Attempt
			})
			if begun && other.Held(bounds) > schemas.HeldNot {
				seals[i] = *other
				break
			}
		}
	}
	return seals
}
