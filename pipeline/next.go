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
	"github.com/stagewise/stagewise/stages"
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
		return nil, fmt.Errorf("examples have labels %q, %w", r.chain.newClasses(r.job.Retrain), errNewClass)
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
		after := r.job.Retrain.After // so long after its first message, an increment need not be complete
		late := !since.IsZero() && after > 0 && r.Clock.Since(since) >= after
		if plan, err := r.planWith(ctx, s, increment, untilEnd, late); err != nil || plan != nil {
			return plan, err
		}
		if untilEnd {
			r.noticeLost() // no plan reports it
			return nil, nil
		}
		if len(increment.spans) > 0 && since.IsZero() {
			since = r.Clock.Now()
		}
		e := event.Expecting{Rows: increment.rows, Of: r.job.Retrain.Rows, After: after, Again: again}
		if !since.IsZero() {
			e.Until = since.Add(after)
		}
		r.rec.Record(e)
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

// errNewClass means that the run is configured to stop when examples have other labels.
var errNewClass = errors.New("which are not classes of the newest version (retrain.on_new_class: stop): set it to full to learn them, or " +
	"to quarantine to exclude them")

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
func firstLabels(job topics.Job) func(*examples.Rows) []string {
	if len(job.Examples.Classes) > 0 || len(job.Examples.Targets) > 0 || job.Examples.PlanLabels() != "" {
		return nil
	}
	missing := job.Examples.MissingLabels()
	var overflows visit.Overflows
	return func(examples *examples.Rows) (labels []string) {
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

// chainPlan returns the common part of all plans of the chain.
func (r *runner) chainPlan(ctx context.Context, s snapshot, spans coverage.Spans) (plan *schemas.Plan, err error) {
	job := r.job
	plan = dispatch.OfJob(r.Pipeline, job, r.here)
	plan.Foreign, plan.Group, plan.Spans = true, job.ShareSize(len(r.backlog.ends)), spans
	plan.Chain = &schemas.Chain{
		Number: r.chain.number, Attempt: r.chain.attempt, Begins: slices.Clone(r.backlog.begins), Open: len(job.Examples.Classes) == 0,
		Made: r.Clock.Now().UnixMilli(), Lost: slices.Clone(r.backlog.lost), Marks: r.backlog.marks, AtLeast: r.chain.least,
		Settings: r.job.Settings(),
	}
	if r.chain.window != nil {
		plan.Chain.Lacking = plan.Chain.Lacking.With(r.chain.window.Unseen, nil)
	}
	if r.acceptsLoss(s.ledger) {
		plan.Chain.AtLeast = 0
	}
	r.noticeLost()
	var earlier *schemas.Plan
	if r.chain.head != nil {
		plan.Chain.Parent, earlier = &schemas.Warm{Run: r.chain.head.Run, Manifest: r.chain.head.Digest()}, r.chain.head.Plan
	}
	plan.Stages = stages.Placed(plan.Stages, earlier)
	if r.chain.head != nil {
		offered, err := r.offered(ctx, s.ledger)
		if err != nil {
			return nil, err
		}
		if offered == nil || r.hasLearnt(offered.Run) {
			plan.Chain.AtLeast = 0 // no version is offered, or it was trained on forgotten rows
		} else {
			o := r.job.Retrain.Gate
			plan.Chain.Gate = &schemas.Gate{Split: o.Split, Margin: o.Margin, Offered: schemas.Warm{Run: offered.Run, Manifest: offered.Digest()}}
		}
	}
	listSources(plan, s.sealed, s.sources, spans)
	plan.Chain.Progress = progressOf(r.chain.progress(), plan.Sources)
	if err := source.CompareForgotten(ctx, r.Pipeline, r.forgotten); err != nil {
		return nil, err
	}
	plan.Forgotten, plan.Heeded = r.forgotten.Rows.Within(r.chain.spans(spans)), r.forgotten.Heeded()
	if plan.Prepare, err = dispatch.PrepareOf(ctx, r.Pipeline, job, plan, earlier); err != nil {
		return nil, err
	}
	if plan.Since, err = r.Now(ctx); err != nil {
		return nil, err
	}
	if r.chain.window != nil && r.chain.stored != nil && r.chain.attempt == 0 { // a failed attempt may have surveyed the same messages
		_, plan.Since.Quarantine, err = r.Log.Bounds(ctx, r.Topics.Quarantine, 0)
	}
	return plan, err
}

// noticeLost reports the messages that were deleted before a run of the chain has processed them.
func (r *runner) noticeLost() {
	for _, lost := range r.backlog.lost {
		event.Notice(r.rec, "%s[%d] deleted offsets %d to %d before a version of the chain learnt their messages: these are lost",
			r.Topics.Examples, lost.Partition, lost.From, lost.To-1)
	}
}

// acceptsLoss reports whether, by decision of the operator, versions are offered even if they have learnt fewer rows because
// the log has lost some.
func (r *runner) acceptsLoss(l *protocol.Ledger) bool {
	pinned := l.Pinned()
	return r.job.Retrain.AcceptLoss || pinned != nil && pinned.Withheld
}

// keepRows makes the gate withhold the version of a full run if it was trained on fewer rows than the increments in the plan
// have, unless the operator accepts the loss: subscribers then keep their version. Forgotten rows, and rows of removed
// sources, are expected to be missing.
func (r *runner) keepRows(plan *schemas.Plan, l *protocol.Ledger) {
	if r.acceptsLoss(l) || len(plan.Forgotten) > 0 || len(plan.Removed) > 0 || plan.Chain.Gate == nil {
		return
	}
	rows := int64(0)
	for i := range plan.Chain.Increments {
		rows += plan.Chain.Increments[i].Learnt()
	}
	plan.Chain.AtLeast = max(plan.Chain.AtLeast, rows)
}

// adds lists in a plan the messages that it adds to those processed by the chain. A message with a timestamp after the plan was made, or
// without one, counts as written then.
func (r *runner) adds(plan *schemas.Plan, increment *cut) {
	c, future := plan.Chain, 0
	var columns []string
	var lacking coverage.Spans
	var last []coverage.Mark // by partition
	for i, m := range increment.messages {
		until := m.until
		if until > c.Made {
			future++
		}
		if until <= 0 || until > c.Made {
			until = c.Made
		}
		if c.Until = max(c.Until, until); c.From == 0 || until < c.From {
			c.From = until
		}
		if n := m.mark.Partition; len(m.lacks) > 0 {
			columns, lacking = append(columns, m.lacks...), append(lacking, coverage.Span{Partition: n, From: m.offset, To: m.offset + 1})
		}
		if i+1 == len(increment.messages) || increment.messages[i+1].mark.Partition != m.mark.Partition {
			last = append(last, m.mark)
		}
	}
	c.Lacking, c.Marks = c.Lacking.With(columns, lacking.Merged()), coverage.Marks(r.backlog.marks, last)
	if future > 0 {
		event.Notice(r.rec, "%d of the next messages of %s have timestamps in the future: they count as written "+
			"now. Check the clocks of the producers", future, r.Topics.Examples)
	}
}

// keepChoice records the choices for the first version of the chain: its stages, and the preparation of sparse rows.
func (r *runner) keepChoice(list []schemas.Stage, how schemas.Prepare) {
	if r.job.Stages = list; r.job.Untuned {
		r.job.Prepare = how
	}
}

// firstPlan returns the plan of the first run of a chain: a full run over the first increment.
func (r *runner) firstPlan(ctx context.Context, s snapshot, increment *cut) (*schemas.Plan, error) {
	plan, err := r.chainPlan(ctx, s, increment.spans)
	if err != nil {
		return nil, err
	}
	if r.choose != nil && r.chain.head == nil {
		chosen, err := r.choose(ctx, plan, increment.rows)
		if err != nil {
			return nil, err
		}
		plan.Stages, plan.Prepare = stages.Placed(chosen.Stages, nil), chosen.Prepare
		r.keepChoice(chosen.Stages, chosen.Prepare)
	}
	if r.adds(plan, increment); r.chain.head != nil { // nothing is left of the chain's rows
		plan.Chain.Ends, plan.Chain.Progress, plan.Chain.Had = r.backlog.ends, progressOf(r.chain.counted, s.sources), r.chain.had
	}
	return plan, nil
}

// fullPlan returns the plan of a full run over the window. It adds no rows, so every row is scored before it is trained
// on. If there is no row to fit, because all are forgotten, or their sources are removed or have lost messages, the plan
// is nil, and the chain restarts. If one class is left, the plan is nil, and r.only is set to that class.
func (r *runner) fullPlan(ctx context.Context, s snapshot) (*schemas.Plan, error) {
	spans, err := r.chain.spans(nil).Union(nil)
	if err != nil {
		return nil, err
	}
	plan, err := r.chainPlan(ctx, s, spans)
	if err != nil {
		return nil, err
	}
	listIncrements(plan.Chain, r.chain.window, r.chain.mostTerms(&r.job), r.windowBytes)
	r.keepRows(plan, s.ledger)
	r.keepWhatCounted(plan, s.sources)
	plan.Chain.Had = r.chain.had
	// A source that has lost messages no longer counts, so the remaining increments may have no row that does.
	if len(plan.Forgotten)+len(plan.Removed) > 0 || r.chain.renews {
		if any, err := r.anyFits(ctx, plan); err != nil {
			return nil, err
		} else if !any {
			event.Notice(r.rec, "all rows of version %d are forgotten or lost, or their sources removed: the chain begins again "+
				"with the next examples", r.chain.head.Version)
			r.chain.beginAgain()
			return nil, nil
		}
	}
	if plan.Classes, err = r.classesLeft(ctx, plan); err != nil {
		return nil, err
	}
	if len(plan.Classes) == 1 && !r.backlog.tellApart(plan.Classes) {
		r.only = plan.Classes
		return nil, nil
	}
	return plan, nil
}

// classes returns the classes of a full run over the window: the configured ones, or those of the newest version and
// additional ones; none if the run determines them.
func (r *runner) classes() []string {
	if len(r.job.Examples.Classes) > 0 || len(r.only) > 0 {
		return r.job.Examples.Classes
	}
	labels := slices.Clone(r.chain.head.Labels)
	if o := r.job.Retrain; o.OnNewClass == topics.NewClassFull {
		labels = append(labels, r.chain.newClasses(o)...)
		examples.SortLabels(labels)
	}
	return labels
}

// keepWhatCounted makes a full run continue from the messages that the previous runs have processed and counted, without
// an update in between.
func (r *runner) keepWhatCounted(plan *schemas.Plan, sources []schemas.SourceSeal) {
	plan.Chain.Ends, plan.Chain.Progress = r.backlog.ends, progressOf(r.chain.window.Progress, sources)
}

// fullWith converts the plan of an increment to that of a full run over the window and the increment, because no update
// can continue from the previous version.
func (r *runner) fullWith(plan *schemas.Plan, s snapshot, window *schemas.Window) (*schemas.Plan, error) {
	r.keepWhatCounted(plan, s.sources)
	added := coverage.Increment{Number: plan.Chain.Number, Weight: 1, Covered: byPartition(plan.Spans), Until: plan.Chain.Until}
	listIncrements(plan.Chain, window, r.chain.mostTerms(&r.job), r.windowBytes)
	all, err := plan.Spans.Union(window.Spans())
	if err != nil {
		return nil, err
	}
	plan.Spans, plan.Classes = all, r.classes()
	listSources(plan, s.sealed, s.sources, all)
	r.keepRows(plan, s.ledger)
	plan.Chain.Increments = append(plan.Chain.Increments, added)
	return plan, nil
}

// updatePlan returns the plan of an update that adds an increment.
func (r *runner) updatePlan(ctx context.Context, s snapshot, increment *cut) (*schemas.Plan, error) {
	plan, err := r.chainPlan(ctx, s, increment.spans)
	if err != nil {
		return nil, err
	}
	r.adds(plan, increment)
	o, window := r.job.Retrain, r.chain.window.Without(increment.spans)
	full := !topics.Updatable(plan.Stages) || plan.Holdout != r.chain.head.Plan.Holdout ||
		plan.Threshold != r.chain.head.Plan.Threshold || !plan.Arithmetic.Admits(r.chain.head.Plan.Arithmetic) ||
		dispatch.CheckFeatures(plan, r.chain.head.Plan) != nil || len(plan.Stages) != len(r.chain.head.Plan.Stages) || len(r.only) > 0 ||
		len(plan.Classes) > 0 && !slices.Equal(plan.Classes, r.chain.head.Labels)
	if !full {
		plan.Warm, plan.Group = plan.Chain.Parent, r.chain.head.Plan.Group // its sums continue those of the parent's shares
	}
	if !full && r.chain.restarts(r.job.Retrain) {
		plan.Chain.AtLeast = 0
		if window.Sparse { // the weights follow the remaining rows in a full run
			before := func(c schemas.WindowIncrement) bool { return c.Increment.Number < window.Changed }
			window.Increments = slices.DeleteFunc(window.Increments, before)
			return r.fullWith(plan, s, window)
		}
		plan.Chain.Update = restart(window, o.Passes)
		plan.Chain.Update.Local = !r.Distribute && isLocal(plan.Chain.Update, window, increment.rows)
		return plan, nil
	}
	plan.Chain.Update = &schemas.Update{Passes: o.Passes, Decay: o.Decay, Sparse: window.Sparse}
	stays, err := r.leave(ctx, plan.Chain, window, increment.rows)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(stays, func(c schemas.WindowIncrement) bool { return c.Fitted > 0 }) {
		fits, err := r.anyFits(ctx, plan)
		if err != nil {
			return nil, err
		}
		if !fits { // nothing would be left to fit, so nothing leaves until rows arrive
			stays, plan.Chain.Update.Leave = window.Increments, nil
		}
	}
	window.Increments = stays
	for i := range plan.Chain.Update.Leave { // these rows leave as intended; after a loss, the chain must learn as many rows as it has lost
		plan.Chain.AtLeast = max(plan.Chain.AtLeast-plan.Chain.Update.Leave[i].Learnt(), 0)
	}
	if full {
		for i := range stays {
			stays[i].Increment = decayed(&stays[i], o.Decay)
		}
		plan.Chain.Update = nil
		return r.fullWith(plan, s, window)
	}
	if !window.Sparse { // otherwise the past is kept as a quadratic, so nothing is revisited
		for _, c := range window.Longest(o.Refresh, max(o.Rows, increment.rows)) {
			plan.Chain.Update.Refresh = append(plan.Chain.Update.Refresh, decayed(&c, o.Decay))
		}
	}
	plan.Chain.Update.Local = !r.Distribute && isLocal(plan.Chain.Update, window, increment.rows)
	return plan, nil
}

// leave adds to an update the increments that leave the window when found rows are added, and returns the remaining ones.
func (r *runner) leave(ctx context.Context, update *schemas.Chain, window *schemas.Window,
	found int64) (stays []schemas.WindowIncrement, err error) {
	rule := leaveRule{retrain: r.job.Retrain, most: r.chain.mostTerms(&r.job), bytes: r.windowBytes}
	if r.retention.Time > 0 || r.retention.Bytes > 0 {
		bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
		if err != nil {
			return nil, err
		}
		if rule.staying, err = topics.Staying(ctx, r.Pipeline, r.retention, bounds); err != nil {
			return nil, err
		}
	}
	return rule.leave(update, window, found), nil
}

// listIncrements lists in the plan of a full run the increments into which it divides a window: see [schemas.Window.Shortened].
func listIncrements(chain *schemas.Chain, w *schemas.Window, most int, bytes int64) {
	for _, c := range w.Shortened(most, bytes) {
		chain.Increments = append(chain.Increments, c.Increment)
	}
}

// listSources lists in a plan the sources with messages in spans, and the removed ones among them.
func listSources(plan *schemas.Plan, sealed *protocol.Ledger, sources []schemas.SourceSeal, spans coverage.Spans) {
	plan.Sources, plan.Removed = nil, nil
	for _, seal := range sources {
		if topics.Overlaps(&seal, spans) {
			plan.Sources = append(plan.Sources, seal.InPlan())
		}
	}
	for _, seal := range sealed.Removed() {
		if topics.Overlaps(seal, spans) {
			plan.Removed = append(plan.Removed, seal.Name())
		}
	}
}

// progressOf returns the progress of a plan's sources, and of followed topics, which plans do not name.
func progressOf(all []schemas.SourceProgress, sources []schemas.SourceSeal) (progress []schemas.SourceProgress) {
	for _, p := range all {
		if schemas.IsTopicSource(p.Source) ||
			slices.ContainsFunc(sources, func(s schemas.SourceSeal) bool { return s.ID == p.Source && s.Attempt == p.Attempt }) {
			progress = append(progress, p)
		}
	}
	return progress
}

// negligible is the weight below which a row does not change any float64 sum of rows of weight 1: half of the distance
// from 1 to the next number.
const negligible = 1.0 / (1 << 53)

// leaveRule decides which increments leave a window.
type leaveRule struct {
	retrain topics.RetrainOptions
	most    int             // maximum number of terms on the state topic; see [chainState.mostTerms]
	bytes   int64           // maximum size of the window; see schemas.WindowBytes
	staying []coverage.Span // bounds that retention keeps during the longest run; nil: unlimited
}

// leave adds to an update the increments that leave the window when found rows are added, and returns the remaining ones.
func (l leaveRule) leave(chain *schemas.Chain, window *schemas.Window, found int64) (stays []schemas.WindowIncrement) {
	o, rows, u := l.retrain.Window, window.Rows()+found, chain.Update
	newest := chain.Until // of the window: the found rows may all be late
	for i := range window.Increments {
		newest = max(newest, window.Increments[i].Increment.Until)
	}
	list := *window // remaining window
	left := 0       // number of increments with rows
	for i := range window.Increments {
		if c := &window.Increments[i].Increment; c.Rows() > 0 {
			left += c.Size()
		}
	}
	for i := range window.Increments {
		c := &window.Increments[i]
		has := c.Increment.Rows()
		switch first := len(stays) == 0; {
		case has == 0: // it replaces no other
		case first && o.Increments > 0 && left+1 > o.Increments:
		case first && o.Rows > 0 && rows-has >= o.Rows:
		case first && l.retrain.Decay < 1 && (c.Increment.Weight*l.retrain.Decay < negligible || list.IsLong(l.most, l.bytes)):
			// So the window is finite: increments with different weights can't be joined.
		case o.Time > 0 && c.Increment.Until < newest-o.Time.Milliseconds():
		case expires(&c.Increment, l.staying): // also a later one, of a source that was sealed late
		default:
			stays = append(stays, *c)
			continue
		}
		if rows -= has; has > 0 {
			left -= c.Increment.Size()
		}
		if len(stays) == 0 {
			list.Increments = list.Increments[1:]
		}
		u.Leave = append(u.Leave, decayed(c, u.Decay))
	}
	return stays
}

// expires reports whether retention may delete rows of an increment during the longest run. staying are the bounds that it
// keeps.
func expires(c *coverage.Increment, staying []coverage.Span) bool {
	return slices.ContainsFunc(c.Covered, func(covered coverage.Coverage) bool {
		span := covered.Spans[0]
		return span.Partition < len(staying) && span.From < staying[span.Partition].From
	})
}

const (
	// localRows is the maximum number of rows of an update that its solver visits, and localProducts that of the products in its Gram
	// matrices: a third of a second on a core. Sending and adding the matrices of 1,024 columns takes as long as summing 1,000 rows.
	localRows     = 1 << 15
	localProducts = 1 << 33
)

// isLocal reports whether an update that adds found rows is too small to distribute.
func isLocal(u *schemas.Update, window *schemas.Window, found int64) bool {
	rows, summed := found, found
	for i := range u.Leave {
		summed += u.Leave[i].Rows()
	}
	for i := range u.Refresh {
		if rows += u.Refresh[i].Rows(); u.Restart {
			summed += u.Refresh[i].Rows()
		}
	}
	matrices := max(window.GramsSize/8, 1) // values of the Gram matrices of all stages
	return max(rows, summed) <= localRows && summed <= localProducts/matrices
}

// decayed returns an increment with its weight after one more update.
func decayed(c *schemas.WindowIncrement, decay float64) coverage.Increment {
	increment := c.Increment
	increment.Weight *= decay
	return increment
}

// restartPasses is the minimum number of passes of an update with empty initial sums, like the first version of a chain.
const restartPasses = 3

// restart returns the update after a change of the stream: the increments before the change leave the window, and all
// others are visited.
func restart(window *schemas.Window, passes int) *schemas.Update {
	u := &schemas.Update{Passes: max(passes, restartPasses), Decay: 1, Restart: true}
	for _, c := range window.Increments {
		if c.Increment.Number < window.Changed {
			u.Leave = append(u.Leave, c.Increment)
			continue
		}
		c.Increment.Weight = 1
		u.Refresh = append(u.Refresh, c.Increment)
	}
	return u
}
