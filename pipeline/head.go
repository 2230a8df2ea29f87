package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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
	"github.com/stagewise/stagewise/schemas/wire"
)

// findHead finds the newest version of the chain, the state of its run, and the number of failed runs that continue from
// it. The ledger has no unfinished runs.
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
	if parent := head.Plan.Chain.Parent; r.chain.head != nil && parent != nil && parent.Run == r.chain.head.Run {
		r.earlier = append([]earlier{{r.chain.head.Plan, r.chain.stored}}, r.earlier...)
	} else {
		r.earlier = nil
	}
	r.looksForClasses()
	r.chain = chainState{head: head, number: r.chain.number, attempt: r.chain.attempt}
	if r.choose != nil {
		r.keepChoice(head.Plan.Stages, head.Plan.Prepare)
	}
	if head.Window != nil {
		r.chain.stored, err = protocol.ReadWindow(ctx, r.Client, *head.Window)
	}
	if err != nil && !errors.Is(err, wire.ErrDamaged) { // a damaged window is gone
		return err
	}
	window := r.chain.stored
	if window == nil {
		if window, err = r.lostWindow(ctx); err != nil {
			return err
		}
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
		m, _, err := r.ModelAt(ctx, place)
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
	window *schemas.Window // nil if it is gone
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
			if e.window, err = protocol.ReadWindow(ctx, r.Client, *manifest.Window); err != nil {
				return err
			}
		}
		r.earlier = append(r.earlier, e)
	}
	return nil
}

// lostWindow reconstructs the window of the chain's newest version, whose state is gone, from the plans of the last
// full run to the newest update. Which messages count in its spans is unknown, so the next run is a full one, which
// decides that again. If plans are gone too, the window is everything that the chain has processed.
func (r *runner) lostWindow(ctx context.Context) (*schemas.Window, error) {
	r.chain.renews = true
	past, err := source.ReadHistory(ctx, r.Pipeline)
	if err != nil {
		return nil, err
	}
	runs, err := past.Runs(r.chain.head)
	if err != nil && !errors.As(err, new(*source.MissingPlanError)) {
		return nil, err
	}
	what := "the plans list its messages"
	if err != nil {
		what = "some of its plans are also lost, so all messages that the chain has read count as its messages"
	}
	w := windowOfPlans(r.chain.head, runs, err == nil)
	event.Notice(r.rec, "%s has lost the state of version %d: %s, and the next version is fitted to them", r.Topics.State,
		r.chain.head.Version, what)
	return w, nil
}

// windowOfPlans reconstructs the window of a chain's head whose state is gone from the plans of its runs, from the last
// full run to that of the head. Which messages count in its spans is unknown. If some of the plans are gone too (whole is
// false), the window starts as everything that the chain has processed.
func windowOfPlans(head *schemas.Manifest, runs []source.EarlierRun, whole bool) *schemas.Window {
	w := &schemas.Window{Run: head.Run, Chain: head.Plan.Chain, Full: head.Plan.Chain.Number}
	if chain := head.Plan.Chain; !whole {
		var spans coverage.Spans
		w.Ends = slices.Clone(chain.Begins)
		for _, m := range chain.Marks {
			if m.Partition < len(w.Ends) {
				w.Ends[m.Partition] = max(w.Ends[m.Partition], m.Offset+1)
			}
		}
		for n, begin := range chain.Begins {
			if span := (coverage.Span{Partition: n, From: begin, To: w.Ends[n]}); !span.Empty() {
				spans = append(spans, span)
			}
		}
		w.Increments = []schemas.WindowIncrement{uncounted(chain.Number, 1, spans)}
	}
	for _, r := range runs {
		addPlan(w, r.Plan)
	}
	return w
}

// addPlan updates a window for another run, as far as its plan determines it.
func addPlan(w *schemas.Window, plan *schemas.Plan) {
	chain := plan.Chain
	if u := chain.Update; u == nil {
		w.Increments, w.Full, w.Ends = nil, chain.Number, slices.Clone(chain.Ends)
		for i := range chain.Increments {
			c := &chain.Increments[i]
			w.Increments = append(w.Increments, uncounted(c.Number, c.Weight, c.Spans()))
			w.Increments[i].Increment.Joined, w.Increments[i].Increment.Until = c.Joined, c.Until
		}
		if len(chain.Increments) == 0 {
			w.Increments = append(w.Increments, uncounted(chain.Number, 1, plan.Spans))
		}
	} else {
		w.Increments = slices.DeleteFunc(w.Without(plan.Spans).Increments, func(c schemas.WindowIncrement) bool {
			return len(c.Increment.Covered) == 0 || slices.ContainsFunc(u.Leave,
				func(left coverage.Increment) bool { return left.Number == c.Increment.Number })
		})
		for i := range w.Increments {
			w.Increments[i].Increment.Weight *= u.Decay
		}
		w.Increments = append(w.Increments, uncounted(chain.Number, 1, plan.Spans))
	}
	if last := len(w.Increments) - 1; w.Increments[last].Increment.Number == chain.Number {
		w.Increments[last].Increment.Until = chain.Until
	}
	w.Advance(plan)
}

// uncounted returns an increment with a weight and known spans only.
func uncounted(number int, weight float64, spans coverage.Spans) schemas.WindowIncrement {
	return schemas.WindowIncrement{Increment: coverage.Increment{Number: number, Weight: weight, Uncounted: true, Covered: byPartition(spans)}}
}

// byPartition groups spans by partition, as in an increment of unknown coverage.
func byPartition(spans coverage.Spans) (covered []coverage.Coverage) {
	for _, hull := range spans.Hulls() {
		covered = append(covered, coverage.Coverage{Spans: spans.On(hull.Partition)})
	}
	return covered
}

// forget reads the forgotten rows. Once the newest version of the chain is not trained on them, it removes all versions
// that are.
func (r *runner) forget(ctx context.Context, l *protocol.Ledger) (err error) {
	if err := r.readForgotten(ctx); err != nil {
		return err
	}
	check := func() error { return source.CheckNewest(ctx, r.Pipeline, l, r.forgotten) }
	if r.chain.head != nil {
		check = func() error { return source.CheckForgotten(r.Pipeline, r.forgotten, r.chain.head) }
	}
	if err := check(); err != nil {
		return err
	}
	if len(r.learnt) == 0 || r.chain.head == nil || r.hasLearnt(r.chain.head.Run) {
		return nil
	}
	// Some may have been removed in the meantime, like the oldest versions.
	r.learnt = slices.DeleteFunc(r.learnt, func(place schemas.Place) bool { return !slices.Contains(l.Versions(), place) })
	_, r.learnt, err = source.RemoveLearnt(ctx, r.Pipeline, r.learnt, r.rec)
	return err
}

// readForgotten reads new messages of the forget topic, and determines which versions were trained on forgotten rows.
func (r *runner) readForgotten(ctx context.Context) error {
	more, err := source.ReadMoreForgotten(ctx, r.Pipeline, r.forgotten)
	if err != nil || !more {
		return err
	}
	r.backlog.restart(lateSources{}) // it has counted rows that are forgotten now
	r.looksForClasses()
	r.learnt, err = source.HaveLearnt(ctx, r.Pipeline, r.forgotten)
	r.forgotten.Tell(r.Topics.Examples, r.rec)
	return err
}

// classesLeft returns the classes of a full run over the window, without those whose rows were all forgotten since the
// previous version.
func (r *runner) classesLeft(ctx context.Context, plan *schemas.Plan) (left []string, err error) {
	classes := r.classes()
	if len(r.job.Examples.Classes) > 0 || r.chain.head.Plan.Forgotten.Covers(plan.Forgotten) {
		return classes, nil
	}
	has, labels := map[string]bool{}, examples.NewLabels(classes)
	for _, class := range classes {
		has[class] = false
	}
	missing := len(has)
	err = dispatch.EachCounted(ctx, r.Pipeline, plan, true, func(_ int, _ int64, batch *examples.Rows) (more bool) {
		for row := range batch.Rows {
			if !batch.Labelled(row) {
				continue
			}
			for label := range batch.Labels(row) {
				label = labels.Spelt(label)
				if there, known := has[label]; known && !there {
					has[label] = true
					missing--
				}
			}
		}
		return missing > 0
	})
	if err != nil {
		return nil, fmt.Errorf("find the classes that are left: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(classes), func(class string) bool { return !has[class] }), nil
}

// anyFits reports whether a run fits its weights to any row of its spans: one that counts, is in the training split, and
// has a label and a weight.
func (r *runner) anyFits(ctx context.Context, plan *schemas.Plan) (any bool, err error) {
	err = dispatch.EachCounted(ctx, r.Pipeline, plan, true, func(partition int, offset int64, batch *examples.Rows) (more bool) {
		for row, weight := range visit.RowsOf(plan, partition, offset, batch).Fitted {
			any = any || weight > 0 && (plan.Task() == examples.Numbers || batch.Labelled(row))
		}
		return !any
	})
	if err != nil {
		return false, fmt.Errorf("find a row to fit to: %w", err)
	}
	return any, nil
}

// hasLearnt reports whether the version of a run was trained on forgotten rows.
func (r *runner) hasLearnt(id string) bool {
	return slices.ContainsFunc(r.learnt, func(place schemas.Place) bool { return place.Run == id })
}

// chainState is the state of a chain: its newest version, and the part of the window that the log still has. The zero value
// is a chain without versions.
type chainState struct {
	head    *schemas.Manifest        // of the newest version; nil: there is none
	stored  *schemas.Window          // window after the head; nil: it is gone
	window  *schemas.Window          // the part of it that the log still has; nil: nothing is left
	counted []schemas.SourceProgress // progress of sources when the chain was restarted; see beginAgain
	renews  bool                     // the window differs from that of the head: the next run must be full
	had     int64                    // number of unforgotten rows in the window, before some were found to be gone
	least   int64                    // see schemas.Chain.AtLeast
	number  int                      // number of the next run in the chain
	attempt int                      // number of failed runs with that number
}

// spans returns the spans of the window's rows together with more.
func (s *chainState) spans(more coverage.Spans) coverage.Spans {
	all := slices.Clone(more)
	if s.window != nil {
		all = append(all, s.window.Spans()...)
	}
	return all
}

// deleted returns the part of the window before the starts of partitions.
func (s *chainState) deleted(begins []coverage.Span) (spans coverage.Spans) {
	for _, span := range s.spans(nil).Merged() {
		if span.Partition < len(begins) {
			span.To = min(span.To, begins[span.Partition].From)
		}
		if !span.Empty() {
			spans = append(spans, span)
		}
	}
	return spans
}

// leaveOut removes spans and then empty increments from the window. The next run must be full. If nothing is left, there
// is no window: the next version is again the first.
func (s *chainState) leaveOut(spans coverage.Spans) {
	rest := s.window.Without(spans)
	for i := range rest.Increments { // the number of rows left of a part is unknown
		c := &rest.Increments[i].Increment
		for j := range c.Covered {
			before, _ := s.window.Increments[i].Increment.On(c.Covered[j].Spans[0].Partition)
			if !slices.Equal(before.Spans, c.Covered[j].Spans) {
				c.Covered[j], c.Forgotten = coverage.Coverage{Spans: c.Covered[j].Spans}, 0
			}
		}
		c.Covered = slices.DeleteFunc(c.Covered, func(left coverage.Coverage) bool { return len(left.Spans.Without(c.Skipped)) == 0 })
	}
	rest.Increments = slices.DeleteFunc(rest.Increments, func(c schemas.WindowIncrement) bool { return len(c.Increment.Covered) == 0 })
	if s.renews = true; len(rest.Increments) == 0 {
		rest = nil
	}
	s.window = rest
}

// beginAgain restarts the chain with the next messages, because no rows are left in its window. The head stays until then,
// and the progress of sources is kept.
func (s *chainState) beginAgain() { s.counted, s.window = s.window.Progress, nil }

// progress returns the progress of sources in the chain.
func (s *chainState) progress() []schemas.SourceProgress {
	if s.window == nil {
		return s.counted
	}
	return s.window.Progress
}

// restarts reports whether the stream has changed, so that the messages before the change are to be dropped.
func (s *chainState) restarts(o topics.RetrainOptions) bool {
	return s.window.Changed > 0 && o.Full.Drift && s.attempt == 0 && !s.renews
}

// fullIsDue reports whether a full run is due. bytes is the maximum size of the window; see schemas.WindowBytes.
func (s *chainState) fullIsDue(job *topics.Job, bytes int64) bool {
	o, since := job.Retrain, s.window.Chain.Number-s.window.Full
	switch {
	case s.renews:
		return true
	case s.window.Rows() == 0: // nothing to fit
		return false
	case s.attempt > 0, s.head.Window == nil:
		return true
	case len(s.newClasses(o)) > 0 && o.OnNewClass == topics.NewClassFull:
		return true
	case since == 0:
		return false
	case s.window.Rejected == 1:
		return true
	case o.Full.Every > 0 && since >= o.Full.Every:
		return true
	case o.Decay == 1 && len(s.window.Shortened(s.mostTerms(job), bytes)) < len(s.window.Increments):
		return true // a full run has fewer and larger increments
	}
	return o.Full.Growth > 0 && float64(s.window.Rows()) >= o.Full.Growth*float64(s.window.FullRows)
}

// newClasses returns the labels in the window that are not classes of the newest version, but have enough rows.
func (s *chainState) newClasses(o topics.RetrainOptions) (labels []string) {
	if s.window == nil {
		return nil
	}
	for _, unknown := range s.window.Unknown {
		if unknown.Rows >= o.NewClassRows {
			labels = append(labels, unknown.Label)
		}
	}
	return labels
}

// mostTerms returns the maximum number of terms on the state topic; 0: unlimited, or none at all.
func (s *chainState) mostTerms(job *topics.Job) int {
	if !topics.Updatable(job.Stages) || s.window.TermsSize == 0 {
		return 0
	}
	left := int64(cmp.Or(job.Topics, topics.DefaultTopics()).State) - s.window.GramsSize
	return int(max(left/s.window.TermsSize, int64(job.Retrain.Refresh)+3)) // those that an update writes, and two others
}

// The log may lose messages on which a chain depends: retention deletes them, an unclean leader election truncates a
// partition, the topic is recreated. Before a run is planned, the last message that the chain has processed in each
// partition must still exist. Otherwise, the chain continues from the messages that the checksums of its increments verify.

// prove determines which partitions no longer have the messages that the chain has processed, given the bounds of the
// examples topic. It removes unverified messages from the window, and makes the next run a full one over the rest.
func (r *runner) prove(ctx context.Context, l *protocol.Ledger, bounds []coverage.Span) error {
	for n := len(bounds); n < len(r.backlog.ends); n++ {
		bounds = append(slices.Clip(bounds), coverage.Span{Partition: n})
	}
	for _, span := range bounds {
		r.backlog.add(span.Partition, span.From)
		replaced := r.backlog.end(span.Partition) > span.To
		if at := slices.IndexFunc(r.backlog.marks, func(m coverage.Mark) bool { return m.Partition == span.Partition }); at >= 0 {
			found, err := r.Still(ctx, r.Topics.Examples, span, r.backlog.marks[at])
			if err != nil {
				return err
			}
			replaced = found != protocol.FoundSame && found != protocol.FoundDeleted // by retention
		}
		if !replaced {
			continue
		}
		before := r.chain.window.Rows()
		proven, last, err := r.provenOn(ctx, span)
		if err != nil {
			return err
		}
		looked := r.backlog.end(span.Partition)
		r.backlog.replace(span, proven, last)
		if r.chain.window != nil {
			cut := coverage.Span{Partition: span.Partition, To: math.MaxInt64}
			if last != nil {
				cut.From = proven
			}
			if err := r.lose(ctx, l, coverage.Spans{cut}); err != nil {
				return err
			}
		}
		if r.chain.window == nil {
			r.chain.counted = nil
		}
		r.rec.Record(event.Replaced{Topic: r.Topics.Examples, Partition: span.Partition, Looked: looked, Proven: proven,
			Rows: before - r.chain.window.Rows()})
	}
	return nil
}

// lose removes messages that the log has lost from the window. Versions are not offered until they have learnt as many rows
// as before.
func (r *runner) lose(ctx context.Context, l *protocol.Ledger, lost coverage.Spans) error {
	offered, err := r.offeredRows(ctx, l)
	if err != nil {
		return err
	}
	learnt := r.chain.window.Learnt()
	r.chain.leaveOut(lost)
	r.chain.had, r.chain.least = max(r.chain.had, learnt), max(r.chain.least, offered, learnt)
	return nil
}

// provenOn returns the offset before which a partition has the messages of the window's increments, and the mark of the
// last message before it. If nothing can be verified, that is the start of the partition, and the mark is nil.
func (r *runner) provenOn(ctx context.Context, bounds coverage.Span) (proven int64, last *coverage.Mark, err error) {
	proven = bounds.From
	if r.chain.window == nil {
		return proven, nil, nil
	}
	type part struct {
		*coverage.Increment
		coverage.Coverage
	}
	var parts []part
	for i := range r.chain.window.Increments {
		increment := &r.chain.window.Increments[i].Increment
		if covered, any := increment.On(bounds.Partition); any {
			parts = append(parts, part{increment, covered})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.Coverage.Spans[0].From, b.Coverage.Spans[0].From) })
	for _, p := range parts {
		if p.Coverage.Spans[0].From < bounds.From {
			continue // deleted, or never there
		}
		end, same, err := r.holds(ctx, bounds, p.Increment, p.Coverage)
		if err != nil || !same {
			return proven, last, err
		}
		if end != nil && (last == nil || end.Offset > last.Offset) {
			last = end
		}
		proven = max(proven, p.Coverage.Spans[len(p.Coverage.Spans)-1].To)
	}
	return proven, last, nil
}

// holds reports whether a partition has the messages of an increment, and returns the mark of the last of them.
func (r *runner) holds(ctx context.Context, bounds coverage.Span, increment *coverage.Increment,
	want coverage.Coverage) (last *coverage.Mark, same bool, err error) {
	n, got := bounds.Partition, coverage.Coverage{Spans: want.Spans}
	if increment.Uncounted || want.Spans[len(want.Spans)-1].To > bounds.To {
		return nil, false, nil
	}
	for _, span := range want.Spans {
		for m, err := range r.Between(ctx, r.Topics.Examples, n, span.From, span.To) {
			if errors.As(err, new(*kafkalog.DeletedError)) {
				return nil, false, nil
			}
			if err != nil {
				return nil, false, err
			}
			mark := protocol.MarkOf(n, m)
			last = &mark
			if increment.Skips(n, m.Offset) {
				continue
			}
			rows := source.RowsIn(r.Pipeline, m)
			got.Count(rows, visit.Checksum(m, n, rows))
		}
	}
	return last, got.Same(want), nil
}

// keepWhatIsHeld removes deleted messages of the examples topic from the window. Then it removes those that retention may
// delete before a full run has ended, unless these are all.
func (r *runner) keepWhatIsHeld(ctx context.Context, l *protocol.Ledger, bounds []coverage.Span) error {
	gone, rows := r.chain.deleted(bounds), r.chain.window.Learnt()
	if len(gone) == 0 {
		return nil
	}
	if staying, err := topics.Staying(ctx, r.Pipeline, r.retention, bounds); err != nil {
		return err
	} else if going := r.chain.deleted(staying); len(r.chain.spans(nil).Without(going)) > 0 {
		gone = going
	}
	if err := r.lose(ctx, l, gone); err != nil {
		return err
	}
	event.Notice(r.rec, "%s deleted messages of version %d while they were in the window: the next version is "+
		"fitted to what remains of its %d rows", r.Topics.Examples, r.chain.head.Version, rows)
	return nil
}
