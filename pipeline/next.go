package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
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
	if r.chain.window != nil && r.job.Retrain.OnNewClass == topics.NewClassStop && len(r.chain.newClasses(r.job.Retrain)) > 0 {
		return nil, &newClassError{r.chain.newClasses(r.job.Retrain)}
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
		r.backlog.follow(s.sources, r.chain.progress(), s.bounds)
		increment, err := r.backlog.cut(ctx, r.job.Retrain.Rows, r.findsClasses(), r.only)
		if errors.As(err, new(*kafkalog.DeletedError)) { // after the bounds were read
			r.backlog.restart(lateSources{})
			continue
		}
		if err != nil {
			return nil, err
		}
		r.rec.Record(r.backlog.behind())
		if plan, err := r.planWith(ctx, s, increment, untilEnd, r.isLate(since)); err != nil || plan != nil {
			return plan, err
		}
		if untilEnd {
			r.noticeLost() // no plan does
			return nil, nil
		}
		if len(increment.spans) > 0 && since.IsZero() {
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
	if !r.proven || r.backlog.shrunk(s.bounds) {
		if err := r.prove(ctx, s.ledger, s.bounds); err != nil {
			return s, err
		}
		r.backlog.shrink(s.bounds)
		r.proven = true
	}
	r.backlog.refresh(s.bounds)
	if err := r.keepWhatIsHeld(ctx, s.ledger, s.bounds); err != nil {
		return s, err
	}
	s.sources = r.sources(s.sealed, s.bounds)
	return s, nil
}

// fullIfDue returns the plan of a full run if one is due before any examples are added; otherwise nil.
func (r *runner) fullIfDue(ctx context.Context, s snapshot) (*schemas.Plan, error) {
	c := &r.chain
	if c.window != nil && !c.renews && c.window.Rows() == 0 && r.hasLearnt(c.head.Run) {
		c.beginAgain() // there is nothing left to fit
	}
	if c.window == nil && len(r.only) > 0 {
		r.looksForClasses()
	}
	if c.window != nil && !c.restarts(r.job.Retrain) && len(r.only) == 0 && (c.fullIsDue(&r.job, r.windowBytes) || r.hasLearnt(c.head.Run)) {
		return r.fullPlan(ctx, s)
	}
	return nil, nil
}

// planWith returns the plan of the run that adds an increment; nil if more messages are expected.
func (r *runner) planWith(ctx context.Context, s snapshot, increment *cut, untilEnd, late bool) (*schemas.Plan, error) {
	switch any := len(increment.spans) > 0; {
	case any && r.chain.window == nil && !increment.counts: // the first run needs an example
		return nil, nil
	case (increment.rows > 0 || r.chain.window != nil) && r.findsClasses() &&
		!r.backlog.tellApart(increment.classes):
		return nil, r.waitForClasses(increment, untilEnd)
	case !any || !increment.whole && !untilEnd && !late:
		return nil, nil
	case r.chain.window == nil:
		return r.firstPlan(ctx, s, increment)
	}
	return r.updatePlan(ctx, s, increment)
}

// isLate reports whether an update is due although its increment is incomplete. since is the time of its first message.
func (r *runner) isLate(since time.Time) bool {
	return !since.IsZero() && r.job.Retrain.After > 0 && r.Clock.Since(since) >= r.job.Retrain.After
}

// expecting describes what the chain waits for, given the increment that is there and the time of its first message.
func (r *runner) expecting(increment *cut, since time.Time, again bool) event.Expecting {
	e := event.Expecting{Rows: increment.rows, Of: r.job.Retrain.Rows, After: r.job.Retrain.After, Again: again}
	if !since.IsZero() {
		e.Until = since.Add(e.After)
	}
	return e
}

// await waits for examples, for messages on the plans topic after a snapshot, for the seal of a source, or for rows to
// forget; at most until the update is due.
func (r *runner) await(ctx context.Context, s snapshot, since time.Time) error {
	positions := source.SaidAfter(r.Pipeline, s.sealed, r.forgotten)
	if s.sealed != s.ledger {
		positions = append(positions, protocol.Position{Topic: r.Topics.Plans, Offset: s.ledger.Next, Compacted: true})
	}
	for n, to := range r.backlog.bounds {
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
	seals := dispatch.Remaining(l, bounds)
	for i := range seals {
		for _, other := range l.Seals(seals[i].ID) {
			begun := slices.ContainsFunc(r.chain.progress(), func(p schemas.SourceProgress) bool {
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

// firstLabels returns a function that returns the first two labels of a message's trainable rows; nil if the job's chain
// can start without them.
func firstLabels(job topics.Job) func(*examples.Batch) []string {
	if len(job.Examples.Classes) > 0 || len(job.Examples.Targets) > 0 || job.Examples.PlanLabels() != "" {
		return nil
	}
	missing := job.Examples.MissingLabels()
	var overflows visit.Overflows
	return func(examples *examples.Batch) (labels []string) {
		if examples.HasLists() {
			return nil
		}
		examples.MissLabels(missing)
		overflowing, known := []int(nil), false
		for row := range examples.Rows {
			if !examples.Labelled(row) {
				continue
			}
			label := examples.Label(row)
			if slices.Contains(labels, label) {
				continue
			}
			if !known {
				overflowing, known = overflows.In(job.Prepare, examples), true
			}
			if slices.Contains(overflowing, row) {
				continue
			}
			if labels = append(labels, label); len(labels) == 2 {
				break
			}
		}
		return labels
	}
}

// findsClasses reports whether the next run determines its classes: the first of a chain, and one whose window has one
// class left.
func (r *runner) findsClasses() bool { return r.chain.window == nil || len(r.only) > 0 }

// waitForClasses reports once that the next version needs rows of another class. At the end of the topic, if no more are
// expected, that is an error.
func (r *runner) waitForClasses(increment *cut, untilEnd bool) error {
	classes := increment.classes
	err := &solve.LabelsError{Classes: len(classes)}
	if len(classes) > 0 {
		err.Label = classes[0]
	}
	if untilEnd {
		return err
	}
	switch {
	case r.waits:
		return nil
	case len(r.only) > 0:
		event.Notice(r.rec, "the version that replaces version %d waits for rows of a second class: without forgotten rows, %v",
			r.chain.head.Version, err)
	default:
		event.Notice(r.rec, "the first version waits for rows of a second class: of %s so far, %v",
			english.Plural(int(increment.rows), "row", ""), err)
	}
	r.waits = true
	return nil
}

// looksForClasses records that it is unknown whether the window has one class left.
func (r *runner) looksForClasses() { r.only, r.waits = nil, false }
