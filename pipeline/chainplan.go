package pipeline

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/pipeline/chain"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/stages"
)

// chainPlan returns the common part of all plans of the chain.
func (r *runner) chainPlan(ctx context.Context, s snapshot, spans coverage.Spans) (plan *schemas.Plan, err error) {
	job := r.job
	plan = &schemas.Plan{
		Name: job.Name, Input: planning.InputOf(job.Examples), Classes: job.Examples.Classes, ClassWeight: job.Examples.ClassWeight,
		Targets: job.Examples.Targets, Labels: job.Examples.PlanLabels(), Missing: job.Examples.Missing.Mode, Holdout: job.Examples.Holdout,
		OnBadMessage: job.OnBadMessage, Outcomes: job.Examples.Outcome.Topic != "",
		Stages: job.Stages, Intercept: job.Intercept, Threshold: job.Threshold,
		Arithmetic: r.here, Seed: job.Seed, Segment: job.Segment, Group: job.ShareSize(len(r.backlog.Ends())), Foreign: true,
		Topic: topics.ForeignTopic(r.Pipeline), Spans: spans,
		Chain: &schemas.Chain{
			Number: r.chain.Number, Attempt: r.chain.Attempt, Begins: r.backlog.Begins(), Open: len(job.Examples.Classes) == 0,
			Made: r.Clock.Now().UnixMilli(), Lost: r.backlog.Lost(), Marks: r.backlog.Marks(), AtLeast: r.chain.Least,
			Settings: r.settings,
		},
	}
	if r.chain.Window != nil {
		plan.Chain.Lacking = plan.Chain.Lacking.With(r.chain.Window.Unseen, nil)
	}
	if r.acceptsLoss(s.ledger) {
		plan.Chain.AtLeast = 0
	}
	for _, lost := range r.backlog.Lost() {
		event.Notice(r.rec, "%s[%d] deleted offsets %d to %d before a version of the chain learnt their messages: these are lost",
			r.Topics.Examples, lost.Partition, lost.From, lost.To-1)
	}
	plan.Arithmetic.Any = job.Arithmetic == planning.ArithmeticAny
	var earlier *schemas.Plan
	if r.chain.Head != nil {
		plan.Chain.Parent, earlier = &schemas.Warm{Run: r.chain.Head.Run, Manifest: r.chain.Head.Digest()}, r.chain.Head.Plan
	}
	plan.Stages = stages.Placed(plan.Stages, earlier)
	if plan.Prepare, err = planning.PrepareOf(ctx, r.Pipeline, job, earlier); err != nil {
		return nil, err
	}
	if r.chain.Head != nil {
		offered, err := r.offered(ctx, s.ledger)
		if err != nil {
			return nil, err
		}
		if offered == nil || r.hasLearnt(offered.Run) {
			plan.Chain.AtLeast = 0 // nobody has it, or by decision of forget
		} else {
			o := r.job.Retrain.Gate
			plan.Chain.Gate = &schemas.Gate{Split: o.Split, Margin: o.Margin, Offered: schemas.Warm{Run: offered.Run, Manifest: offered.Digest()}}
		}
	}
	chain.ListSources(plan, s.sealed, s.sources, spans)
	plan.Chain.Progress = chain.ProgressOf(r.chain.Progress(), plan.Sources)
	if err := heed.Compare(ctx, r.Pipeline, r.forgotten); err != nil {
		return nil, err
	}
	plan.Forgotten, plan.Heeded = r.forgotten.Rows.Within(r.chain.Spans(spans)), r.forgotten.Heeded()
	if plan.Since, err = r.Now(ctx); err != nil {
		return nil, err
	}
	if r.chain.Window != nil && r.chain.Stored != nil && r.chain.Attempt == 0 { // a failed attempt may have surveyed the same
		_, plan.Since.Quarantine, err = r.Log.Bounds(ctx, r.Topics.Quarantine, 0)
	}
	return plan, err
}

// acceptsLoss reports whether versions that have learnt fewer rows because the log has lost some are offered, by decision of
// the operator.
func (r *runner) acceptsLoss(l *protocol.Ledger) bool {
	return r.job.Retrain.AcceptLoss || chain.PinsWithheld(l)
}

// keepRows is [chain.KeepRows], unless the operator has decided otherwise.
func (r *runner) keepRows(plan *schemas.Plan, l *protocol.Ledger) {
	if !r.acceptsLoss(l) {
		chain.KeepRows(plan)
	}
}

// adds lists in a plan the messages that it adds to those processed by the chain.
func (r *runner) adds(plan *schemas.Plan, spans coverage.Spans) {
	future := 0
	plan.Chain.From, plan.Chain.Until, future = r.backlog.Times(spans, plan.Chain.Made)
	plan.Chain.Lacking = plan.Chain.Lacking.With(r.backlog.Lacking(spans))
	if plan.Chain.Marks = r.backlog.MarksAfter(spans); future > 0 {
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
func (r *runner) firstPlan(ctx context.Context, s snapshot, increment chain.Increment) (*schemas.Plan, error) {
	plan, err := r.chainPlan(ctx, s, increment.Spans)
	if err != nil {
		return nil, err
	}
	if r.choose != nil && r.chain.Head == nil {
		chosen, err := r.choose(ctx, plan, increment.Rows)
		if err != nil {
			return nil, err
		}
		plan.Stages, plan.Prepare = stages.Placed(chosen.Stages, nil), chosen.Prepare
		r.keepChoice(chosen.Stages, chosen.Prepare)
	}
	if r.adds(plan, increment.Spans); r.chain.Head != nil { // nothing is left of the chain's rows
		plan.Chain.Ends, plan.Chain.Progress, plan.Chain.Had = r.backlog.Ends(), chain.ProgressOf(r.chain.Counted, s.sources), r.chain.Had
	}
	return plan, nil
}

// fullPlan returns the plan of a full run over the window. It adds no rows, so every row is scored before it is trained
// on. If there is no row to fit, because all are forgotten, or their sources are removed or have lost messages, it is nil,
// and the chain restarts. If one class is left, it is nil, and only is set to that class.
func (r *runner) fullPlan(ctx context.Context, s snapshot) (*schemas.Plan, error) {
	spans, err := r.chain.Spans(nil).Union(nil)
	if err != nil {
		return nil, err
	}
	plan, err := r.chainPlan(ctx, s, spans)
	if err != nil {
		return nil, err
	}
	chain.ListIncrements(plan.Chain, r.chain.Window, r.chain.MostTerms(&r.job), r.windowBytes)
	r.keepRows(plan, s.ledger)
	r.keepWhatCounted(plan, s.sources)
	plan.Chain.Had = r.chain.Had
	// A source that has lost messages no longer counts, so the remaining increments may have no row that does.
	if len(plan.Forgotten)+len(plan.Removed) > 0 || r.chain.Renews {
		if any, err := r.anyFits(ctx, plan); err != nil {
			return nil, err
		} else if !any {
			event.Notice(r.rec, "all rows of version %d are forgotten or lost, or their sources removed: the chain begins again "+
				"with the next examples", r.chain.Head.Version)
			r.chain.BeginAgain()
			return nil, nil
		}
	}
	if plan.Classes, err = r.classesLeft(ctx, plan); err != nil {
		return nil, err
	}
	if len(plan.Classes) == 1 && !r.backlog.TellApart(plan.Classes) {
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
	return r.chain.Classes(r.job.Retrain)
}

// keepWhatCounted makes a full run continue from the messages that the previous runs have processed and counted, without
// an update in between.
func (r *runner) keepWhatCounted(plan *schemas.Plan, sources []schemas.SourceSeal) {
	plan.Chain.Ends, plan.Chain.Progress = r.backlog.Ends(), chain.ProgressOf(r.chain.Window.Progress, sources)
}

// fullWith converts the plan of an increment to that of a full run over the window and the increment, because no update
// can continue from the previous version.
func (r *runner) fullWith(plan *schemas.Plan, s snapshot, window *schemas.Window) (*schemas.Plan, error) {
	r.keepWhatCounted(plan, s.sources)
	added := coverage.Increment{Number: plan.Chain.Number, Weight: 1, Covered: chain.ByPartition(plan.Spans)}
	chain.ListIncrements(plan.Chain, window, r.chain.MostTerms(&r.job), r.windowBytes)
	all, err := plan.Spans.Union(window.Spans())
	if err != nil {
		return nil, err
	}
	plan.Spans, plan.Classes = all, r.classes()
	chain.ListSources(plan, s.sealed, s.sources, all)
	r.keepRows(plan, s.ledger)
	plan.Chain.Increments = append(plan.Chain.Increments, added)
	return plan, nil
}

// updatePlan returns the plan of an update that adds an increment.
func (r *runner) updatePlan(ctx context.Context, s snapshot, increment chain.Increment) (*schemas.Plan, error) {
	plan, err := r.chainPlan(ctx, s, increment.Spans)
	if err != nil {
		return nil, err
	}
	r.adds(plan, increment.Spans)
	o, window := r.job.Retrain, r.chain.Window.Without(increment.Spans)
	if !topics.Updatable(plan.Stages) || plan.Holdout != r.chain.Head.Plan.Holdout ||
		plan.Threshold != r.chain.Head.Plan.Threshold || !plan.Arithmetic.Admits(r.chain.Head.Plan.Arithmetic) ||
		planning.CheckFeatures(plan, r.chain.Head.Plan) != nil || len(plan.Stages) != len(r.chain.Head.Plan.Stages) || len(r.only) > 0 ||
		len(plan.Classes) > 0 && !slices.Equal(plan.Classes, r.chain.Head.Labels) {
		return r.fullWith(plan, s, window)
	}
	plan.Warm, plan.Group = plan.Chain.Parent, r.chain.Head.Plan.Group // its sums go on from those of the parent's shares
	if r.chain.Restarts(r.job.Retrain) {
		plan.Chain.AtLeast = 0
		if window.Sparse { // the weights follow the remaining rows in a full run
			chain.DropChanged(window)
			return r.fullWith(plan, s, window)
		}
		plan.Chain.Update = chain.Restart(window, o.Passes)
		plan.Chain.Update.Local = !r.Distribute && chain.IsLocal(plan.Chain.Update, window, increment.Rows)
		return plan, nil
	}
	plan.Chain.Update = &schemas.Update{Passes: o.Passes, Decay: o.Decay, Sparse: window.Sparse}
	stays, err := r.leave(ctx, plan.Chain, window, increment.Rows)
	if err != nil {
		return nil, err
	}
	if !chain.AnyFitted(stays) {
		fits, err := r.anyFits(ctx, plan)
		if err != nil {
			return nil, err
		}
		if !fits { // nothing would be left to fit, so nothing leaves until rows arrive
			stays, plan.Chain.Update.Leave = window.Increments, nil
		}
	}
	window.Increments = stays
	for i := range plan.Chain.Update.Leave { // as intended: after a loss the chain learns as many rows again as it has lost
		plan.Chain.AtLeast = max(plan.Chain.AtLeast-plan.Chain.Update.Leave[i].Learnt(), 0)
	}
	chain.Refresh(plan.Chain.Update, window, o, increment.Rows)
	plan.Chain.Update.Local = !r.Distribute && chain.IsLocal(plan.Chain.Update, window, increment.Rows)
	return plan, nil
}

// leave adds to an update the increments that leave the window when found rows are added, and returns the remaining ones.
func (r *runner) leave(ctx context.Context, update *schemas.Chain, window *schemas.Window,
	found int64) (stays []schemas.WindowIncrement, err error) {
	leaving := chain.Leaving{Retrain: r.job.Retrain, Most: r.chain.MostTerms(&r.job), Bytes: r.windowBytes}
	if r.retention.Time > 0 || r.retention.Bytes > 0 {
		bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
		if err != nil {
			return nil, err
		}
		if leaving.Staying, err = topics.Staying(ctx, r.Pipeline, r.retention, bounds); err != nil {
			return nil, err
		}
	}
	return leaving.Leave(update, window, found), nil
}
