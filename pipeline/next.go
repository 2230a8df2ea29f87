package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/chain"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// snapshot is the state of the log when the next run is planned.
type snapshot struct {
	ledger  *protocol.Ledger     // of the pipeline's plans
	sealed  *protocol.Ledger     // of the plans topic with the seals of sources: the same, or that of the pipeline that owns the examples
	bounds  []coverage.Span      // of the examples topic
	sources []schemas.SourceSeal // the valid ones
}

// next waits until the next run is due, and returns its plan; nil if untilEnd is set and the topic has no more messages.
func (r *runner) next(ctx context.Context, untilEnd bool) (*schemas.Plan, error) {
	if r.chain.Window != nil && r.job.Retrain.OnNewClass == topics.NewClassStop && len(r.chain.NewClasses(r.job.Retrain)) > 0 {
		return nil, &newClassError{r.chain.NewClasses(r.job.Retrain)}
	}
	var since time.Time // time at which the first reason for a new version was found
	for again := false; ; again = true {
		s, err := r.look(ctx)
		if err != nil {
			return nil, err
		}
		plan, err := r.fullIfDue(ctx, s)
		if err != nil || plan != nil {
			return plan, err
		}
		r.backlog.Follow(s.sources, r.chain.Progress(), s.bounds)
		increment, err := r.backlog.Cut(ctx, r.job.Retrain.Rows, r.findsClasses(), r.only)
		if errors.As(err, new(*kafkalog.DeletedError)) { // after the bounds were read
			r.backlog.Restart()
			continue
		}
		if err != nil {
			return nil, err
		}
		r.rec.Record(r.backlog.Behind())
		if plan, err := r.planWith(ctx, s, increment, untilEnd, r.isLate(since)); err != nil || plan != nil {
			return plan, err
		}
		if untilEnd {
			return nil, nil
		}
		if len(increment.Spans) > 0 && since.IsZero() {
			since = r.Clock.Now()
		}
		r.rec.Record(r.expecting(increment, since, again))
		if err := r.await(ctx, s, since); err != nil {
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

// look reads the state of the log, and removes lost messages from the window and the backlog.
func (r *runner) look(ctx context.Context) (s snapshot, err error) {
	if s.ledger, err = r.ReadLedger(ctx); err != nil {
		return s, err
	}
	if s.bounds, err = r.Log.Spans(ctx, r.Topics.Examples); err != nil {
		return s, err
	}
	if s.sealed, err = topics.SealedBy(ctx, r.Pipeline, s.ledger); err != nil {
		return s, err
	}
	if !r.proven || r.backlog.Shrunk(s.bounds) {
		if err := r.prove(ctx, s.ledger, s.bounds); err != nil {
			return s, err
		}
		r.backlog.Shrink(s.bounds)
		r.proven = true
	}
	r.backlog.Refresh(s.bounds)
	if err := r.keepWhatIsHeld(ctx, s.ledger, s.bounds); err != nil {
		return s, err
	}
	s.sources = r.sources(s.sealed, s.bounds)
	return s, nil
}

// fullIfDue returns the plan of a full run if one is due before any examples are added; otherwise nil.
func (r *runner) fullIfDue(ctx context.Context, s snapshot) (*schemas.Plan, error) {
	c := &r.chain
	if c.Window != nil && !c.Renews && c.Window.Rows() == 0 && r.hasLearnt(c.Head.Run) {
		c.BeginAgain() // there is nothing left to fit
	}
	if c.Window == nil && len(r.only) > 0 {
		r.looksForClasses()
	}
	if c.Window != nil && !c.Restarts(r.job.Retrain) && len(r.only) == 0 && (c.FullIsDue(&r.job, r.windowBytes) || r.hasLearnt(c.Head.Run)) {
		return r.fullPlan(ctx, s)
	}
	return nil, nil
}

// planWith returns the plan of the run that adds an increment; nil if more messages are expected.
func (r *runner) planWith(ctx context.Context, s snapshot, increment chain.Increment, untilEnd, late bool) (*schemas.Plan, error) {
	switch any := len(increment.Spans) > 0; {
	case any && r.chain.Window == nil && !r.backlog.AnyCounts(increment.Spans): // the first run needs an example
		return nil, nil
	case (increment.Rows > 0 || r.chain.Window != nil) && r.findsClasses() &&
		!r.backlog.TellApart(r.backlog.LabelsOf(increment.Spans, r.only)):
		return nil, r.waitForClasses(increment, untilEnd)
	case !any || !increment.Whole && !untilEnd && !late:
		return nil, nil
	case r.chain.Window == nil:
		return r.firstPlan(ctx, s, increment)
	}
	return r.updatePlan(ctx, s, increment)
}

// isLate reports whether an update is due although its increment is incomplete. since is the time of its first message.
func (r *runner) isLate(since time.Time) bool {
	return !since.IsZero() && r.job.Retrain.After > 0 && r.Clock.Since(since) >= r.job.Retrain.After
}

// expecting describes what the chain waits for, given the increment that is there and the time of its first message.
func (r *runner) expecting(increment chain.Increment, since time.Time, again bool) event.Expecting {
	e := event.Expecting{Rows: increment.Rows, Of: r.job.Retrain.Rows, After: r.job.Retrain.After, Again: again}
	if !since.IsZero() {
		e.Until = since.Add(e.After)
	}
	return e
}

// await waits for examples, for messages on the plans topic after a snapshot, for the seal of a source, or for rows to
// forget; at most until the update is due.
func (r *runner) await(ctx context.Context, s snapshot, since time.Time) error {
	positions := heed.SaidAfter(r.Pipeline, s.sealed, r.forgotten)
	if s.sealed != s.ledger {
		positions = append(positions, protocol.Position{Topic: r.Topics.Plans, Offset: s.ledger.Next, Compacted: true})
	}
	for n, to := range r.backlog.Bounds() {
		positions = append(positions, protocol.Position{Topic: r.Topics.Examples, Partition: n, Offset: to, Compacted: true})
	}
	subscription := r.Log.Subscribe(ctx, r.owner.Changed(), positions...)
	defer subscription.Close()
	timeout := protocol.MaxPatience
	if !since.IsZero() && r.job.Retrain.After > 0 {
		timeout = min(timeout, max(r.Clock.Until(since.Add(r.job.Retrain.After)), 0))
	}
	_, _, err := subscription.Next(ctx, timeout)
	if errors.As(err, new(*kafkalog.DeletedError)) { // the next look at the bounds handles it
		return nil
	}
	return err
}

// newClassError means that examples have labels that are not classes, and that the run is configured to stop then.
type newClassError struct{ Labels []string }

// Error includes the labels.
func (e *newClassError) Error() string {
	return fmt.Sprintf("examples have labels %q, which are not classes of the newest version (retrain.on_new_class: stop): set it "+
		"to full to learn them, or to quarantine to exclude them", e.Labels)
}

// sources returns a seal of each source that a topic with those bounds still has. If the chain has started to count a
// source, it is the seal with which it has started: of two ingests of the same rows only one counts.
func (r *runner) sources(l *protocol.Ledger, bounds []coverage.Span) []schemas.SourceSeal {
	seals := planning.Remaining(l, bounds)
	for i := range seals {
		for _, other := range l.Seals(seals[i].ID) {
			begun := slices.ContainsFunc(r.chain.Progress(), func(p schemas.SourceProgress) bool {
				return p.Source == other.ID && p.Attempt == other.Attempt
			})
			if begun && other.Held(bounds) > schemas.HeldNot {
				seals[i] = *other
				break
			}
		}
	}
	return seals
}
