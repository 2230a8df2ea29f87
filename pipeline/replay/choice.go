package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// NeedsChoice reports whether the stages of a job, or their preparation and fit, must be chosen: it has no stages, or a rule
// that ends stages, or the fit of sparse rows is not fully configured. chained means that the job belongs to a chain.
func NeedsChoice(job topics.Job, chained bool) bool {
	return len(job.Stages) == 0 || job.Untuned || slices.ContainsFunc(job.Stages, endsStages) ||
		!chained && slices.ContainsFunc(job.Stages, autoColumns)
}

func endsStages(s schemas.Stage) bool { return s.Stop != nil && s.Stop.Stages }

// candidate is a list of stages to try.
type candidate struct {
	name    string
	stages  []schemas.Stage
	prepare schemas.Prepare
	least   int        // minimum number of stages
	opened  *candidate // tried instead if its first stage is better than the first blocks of this one; nil: none

	fit  bool          // the fit of sparse rows is tried, on the spans that [chooser.enough] returns
	from *schemas.Warm // version that the fit starts from; nil: none
}

// chooser chooses the stages of a job, or their preparation and fit, by runs over the rows that the job learns from.
type chooser struct {
	trials
	plans   planner
	rows    int64 // number of training rows; 0 if unknown
	chained bool
}

func newChooser(p *topics.Pipeline, by dispatch.Process, job topics.Job, plans planner, rows int64, rec event.Recorder) *chooser {
	return &chooser{trials: trials{pipeline: p, process: by, job: job, word: "search", recorder: notices(rec)}, plans: plans, rows: rows}
}

// Resolve returns the job with the stages that have the lowest holdout loss of the last link: a candidate, up to one of
// its stages. The run of the job is then trained on all rows. If there is nothing to choose, it returns the job unchanged.
// The files of the job must be ingested.
func Resolve(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job,
	ingested *source.Ingested, rec event.Recorder) (topics.Job, error) {
	rows := int64(0)
	for _, s := range ingested.Seals {
		if s.Split == examples.Train.String() {
			rows += s.Rows
		}
	}
	return newChooser(p, by, job, ingestedPlans(ctx, p, by, ingested), rows, rec).resolve(ctx)
}

// ResolvePlanned is [Resolve] for a job of a chain, on the rows of the plan of its first run. rows is their number.
func ResolvePlanned(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, plan *schemas.Plan,
	rows int64, rec event.Recorder) (topics.Job, error) {
	c := newChooser(p, by, job, samePlans(plan), rows, rec)
	c.chained = true
	chosen, err := c.resolve(ctx)
	chosen.Prepare = scaled(chosen.Prepare, plan)
	return chosen, err
}

// scaled returns a preparation with the scale of a plan unless it has one.
func scaled(p schemas.Prepare, plan *schemas.Plan) schemas.Prepare {
	if p.Scale == stages.ScaleAuto {
		p.Scale = plan.Prepare.Scale
	}
	return p
}

func (c *chooser) resolve(ctx context.Context) (job topics.Job, err error) {
	if job = c.job; !NeedsChoice(job, c.chained) {
		return job, nil
	}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	var candidates []candidate
	if len(job.Stages) == 0 {
		if candidates, err = c.suitable(ctx); err != nil {
			return job, err
		}
		if only := candidates[0]; len(candidates) == 1 && only.least == len(only.stages) {
			event.Notice(c.recorder, "stages: %s, by what the examples are", only.name)
			if job.Stages, job.Prepare = only.stages, only.prepare; !slices.ContainsFunc(job.Stages, autoColumns) {
				return job, nil
			}
			c.job = job
		}
	}
	if len(job.Stages) > 0 {
		if job.Untuned || slices.ContainsFunc(job.Stages, autoColumns) {
			if job, err = c.tuned(ctx); err != nil || !slices.ContainsFunc(job.Stages, endsStages) {
				return job, err
			}
			c.job = job
		}
		candidates = []candidate{listed(job)}
	}
	best, err := c.lowestOf(ctx, candidates)
	if err != nil {
		return job, fmt.Errorf("choose stages: %w", err)
	}
	last, temperature := best.losses[best.end-1], ""
	if len(job.Stages) == 0 {
		best.enlarge(c.rows)
	}
	job.Stages, job.Prepare = slices.Clone(best.stages[:best.end]), best.prepare
	if last.temperature != 1 {
		job.Stages[best.end-1].Temperature = last.temperature
		temperature = fmt.Sprintf(", temperature %g", last.temperature)
	}
	event.Notice(c.recorder, "stages: chose %s, %s%s, and now learns from all rows", best.name, english.Plural(best.end, "stage", ""),
		temperature)
	return job, nil
}

// lowestOf returns the candidate with the lowest loss.
func (c *chooser) lowestOf(ctx context.Context, candidates []candidate) (best found, err error) {
	best.loss = math.Inf(1)
	for _, tried := range candidates {
		if tried.opened != nil {
			opening, err := c.try(ctx, tried.opened.first(1))
			if err != nil {
				return best, err
			}
			blocks, err := c.try(ctx, tried.first(blocksOfOpening))
			if err != nil {
				return best, err
			}
			if opening.loss < openingFactor*blocks.loss {
				tried = *tried.opened
			}
		}
		next, err := c.try(ctx, tried)
		if err != nil {
			return best, err
		}
		if next.loss < clearly*best.loss {
			best = next
		}
	}
	if best.end == 0 {
		return best, errors.New("no candidate could be trained: list stages")
	}
	return best, nil
}

// first returns the first stages of a candidate.
func (c *candidate) first(n int) candidate {
	return candidate{name: "the opening of " + c.name, stages: c.stages[:n], prepare: c.prepare, least: n}
}

// try trains a candidate on the rows that are not held out. A quadratic fit ends where the holdout loss no longer falls. Other fits
// converge, as the run on all rows will: if they ended early, the fits with smaller ridges, which start from the others, would have
// lower losses only because of the additional passes.
func (c *chooser) try(ctx context.Context, tried candidate) (found, error) {
	f, job := found{candidate: tried, loss: math.Inf(1)}, c.job
	job.Stages, job.Prepare = slices.Clone(tried.stages), tried.prepare
	if job.Examples.Holdout = heldOut(c.job, c.rows); tried.fit {
		job.Examples.Holdout = cmp.Or(c.job.Examples.Holdout, sparseHoldout)
	}
	for i := range job.Stages {
		if s := &job.Stages[i]; tried.fit && s.Stop == nil && link.Named(s.Link).Quadratic {
			s.Stop = &schemas.Stop{Split: examples.Holdout.String(), Patience: 1}
		}
	}
	all, err := c.plans(job)
	if err != nil {
		return f, err
	}
	plan := *all
	if tried.fit {
		plan.Spans, plan.Warm = c.enough(plan.Spans), tried.from
	}
	run, err := c.train(ctx, &plan)
	if err != nil {
		return f, err
	}
	report := run.Report
	if report == nil {
		event.Notice(c.recorder, "stages: %s can't be used: %v", tried.name, run.Err)
		return f, nil
	}
	lowest := f.judge(report, !c.chained && !tried.fit)
	if f.end == 0 {
		return f, errors.New("no labelled row was held out: list stages, or set examples.holdout")
	}
	if tried.fit {
		f.version, f.passes = run.version, report.Stages[len(report.Stages)-1].Passes
		fitted := c.fittedStage(f.stages)
		fitted.Passes = f.passes
		event.Notice(c.recorder, "stages: tried %s: the loss of held-out rows is %.4f", described(f.prepare, fitted), f.loss)
	} else {
		event.Notice(c.recorder, "stages: tried %s: the loss of %s held-out rows is lowest after %d of %d, %.4f", tried.name,
			humanize.Comma(report.Splits[examples.Holdout.String()].Rows), lowest, len(tried.stages), f.loss)
	}
	return f, nil
}

// found is a candidate that was tried. The number of stages to use is 0, and the loss infinite, if it can't be used.
type found struct {
	candidate
	losses  []heldOutLoss // after each stage
	end     int           // number of stages to use
	loss    float64       // the lowest
	passes  int           // of the last stage of a fit
	version *schemas.Warm // of the run of a fit
}

// heldOutLoss is the loss of held-out rows after a stage, with scores divided by a temperature.
type heldOutLoss struct{ loss, temperature float64 }

// judge sets the losses and the number of stages to use, from the report of a run, whose first member has these stages. A loss is NaN
// without held-out rows. With temper it is the lowest over all temperatures after stages that have measured it, unless the candidate sets a
// temperature: blocks of trees become overconfident long before their errors rise, so without temperatures, few blocks have the lowest
// loss. judge returns the number of stages after which the loss is lowest. After the last of several blocks of trees it may be nearly the
// lowest.
func (f *found) judge(report *schemas.Report, temper bool) (lowest int) {
	grown := func(t int) bool { return stages.KindOf(f.stages[t].Features).Grown }
	f.losses = make([]heldOutLoss, len(f.stages))
	for t, s := range f.stages {
		after := heldOutLoss{math.NaN(), 1}
		if t < len(report.Stages) {
			switch r := report.Stages[t]; {
			case temper && r.Tempered != nil && s.Temperature == 0:
				after = heldOutLoss{r.Tempered.HoldoutLoss, r.Tempered.Temperature}
			case r.HoldoutLoss != nil:
				after.loss = *r.HoldoutLoss
			}
		}
		if f.losses[t] = after; t+1 >= f.least && after.loss < f.loss {
			lowest, f.loss = t+1, after.loss
		}
	}
	f.end = lowest
	for end := len(f.stages); f.end == lowest && end > lowest && lowest > 0 && grown(lowest-1); end-- {
		if grown(end-1) && f.losses[end-1].loss <= nearlyLowest*f.loss {
			f.end = end
		}
	}
	return lowest
}

// enlarge replaces the stages by more blocks with as many trees of twice as many leaves, if the loss falls clearly in the last
// blocks and there are enough rows. These stages are not tried: they take three times as long.
func (f *found) enlarge(rows int64) {
	n := len(f.stages)
	grown := stages.Larger(f.stages[n-1].Features)
	if !stages.KindOf(grown).Grown || rows < leafRows*int64(grown.Leaves) || n <= lastBlocks ||
		!(f.losses[n-1].loss < clearly*f.losses[n-1-lastBlocks].loss) {
		return
	}
	f.name = "larger " + f.name
	f.stages = append(slices.Clone(f.stages), slices.Repeat(f.stages[n-1:], blocksOfLarger-blocksOfTrees)...)
	for t := range f.stages {
		if s := &f.stages[t]; stages.KindOf(s.Features).Grown {
			s.Features = grown
		}
	}
	f.end = len(f.stages)
}

// notices returns a recorder that forwards only the progress and the notices of a search, since the user did not start its runs. It
// forwards equal notices once.
func notices(to event.Recorder) event.Recorder {
	var said sync.Map // of event.Noticed
	return func(e event.Event) {
		switch e := e.(type) {
		case event.Noticed:
			if _, again := said.LoadOrStore(e, true); !again {
				to.Record(e)
			}
		case event.Progressed:
			to.Record(event.Trying{Progressed: e})
		}
	}
}

const (
	blocksOfTrees   = 22 // of a candidate
	blocksOfLarger  = 30 // with larger trees
	blocksOfOpening = 3  // of trees that take about as long as an opening

	// openingFactor is the factor by which the loss of an opening must be lower than that of blocksOfOpening: where both are about the
	// same, trees alone predict as well.
	openingFactor = 0.97
	clearly       = 0.995 // the factor below which a loss is clearly lower: a smaller difference may be chance
	// nearlyLowest is the maximum factor by which the holdout loss may exceed the lowest one after more blocks of trees: errors still fall
	// when the loss no longer does, and few held-out rows select too few blocks.
	nearlyLowest = 1.02

	// Trees are made larger if the loss falls clearly in the last blocks, and there are enough rows for each leaf: with fewer, the loss
	// stays the same or rises.
	lastBlocks = 5
	leafRows   = 200

	// leastHeldOut is the minimum number of held-out rows for a choice: the loss of fewer is not significant. With fewer than leastRows
	// there is no choice among stages for tables, regardless of the number held out: trees fit this few rows entirely, so that the loss
	// falls to the last of the largest blocks.
	leastHeldOut = 50
	leastRows    = 500

	enoughHeldOut = 1000 // with few rows the holdout is larger, since a choice by a tenth would be random
	mostHeldOut   = 0.25

	leastImage = 16 // the minimum height and width of images for patches
)

// suitable returns candidates that suit the examples of a job without stages. For tables these are the columns alone, and trees,
// perhaps after an opening, or only the opening if too few rows can be held out.
func (c *chooser) suitable(ctx context.Context) ([]candidate, error) {
	job := c.job
	first, err := c.look(ctx, job)
	if err != nil {
		return nil, err
	}
	switch {
	case first.Sparse:
		list := suiting(job, stages.SparseRows, job.Prepare)
		list[0].stages[0].Passes = solve.LastPasses(list[0].stages[0])
		return list, nil
	case first.Image.Height() >= leastImage && first.Image.Width() >= leastImage:
		return suiting(job, stages.Images, job.Prepare), nil
	case !first.Named:
		return suiting(job, stages.Vectors, job.Prepare), nil
	}
	standard, ranks := job.Prepare, job.Prepare
	if job.Prepare.Scale == stages.ScaleAuto {
		standard.Scale = stages.ScaleStandard
		if ranks.Scale = stages.ScaleRanks; job.Prepare.PCA > 0 {
			ranks.Scale = stages.ScaleStandard
		}
	}
	few := c.rows > 0 && (c.rows < leastRows || float64(c.rows)*heldOut(job, 0) < leastHeldOut)
	opening := stages.Names(func(k stages.Kind) bool { return k.Opens })
	if few && len(opening) > 0 {
		return []candidate{{name: opening[0], stages: []schemas.Stage{stageOf(job, opening[0])}, prepare: standard, least: 1}}, nil
	}
	list := suiting(job, stages.Tables, standard)
	for i, c := range list {
		if stages.KindOf(c.stages[0].Features).Grown && len(opening) > 0 {
			list[i].opened = &candidate{name: opening[0] + " and " + c.name,
				stages: append([]schemas.Stage{stageOf(job, opening[0])}, c.stages...), prepare: ranks, least: 2}
		}
	}
	return list, nil
}

// heldOut returns the holdout fraction for choosing the stages of a job, given its number of rows. If it is not
// configured, it is [stages.DefaultHoldout], or large enough for enoughHeldOut rows, but at most mostHeldOut.
func heldOut(job topics.Job, rows int64) float64 {
	if job.Examples.Holdout > 0 || rows <= 0 {
		return cmp.Or(job.Examples.Holdout, stages.DefaultHoldout)
	}
	return max(stages.DefaultHoldout, min(mostHeldOut, float64(enoughHeldOut)/float64(rows)))
}

// suiting returns a candidate for each suitable kind of features: one stage, or several of trees.
func suiting(job topics.Job, e stages.Examples, prepare schemas.Prepare) (list []candidate) {
	for _, kind := range stages.Names(func(k stages.Kind) bool { return slices.Contains(k.Suits, e) }) {
		c := candidate{name: kind, stages: []schemas.Stage{stageOf(job, kind)}, prepare: prepare, least: 1}
		if stages.KindOf(c.stages[0].Features).Grown {
			c.stages = slices.Repeat(c.stages, blocksOfTrees)
		}
		list = append(list, c)
	}
	return list
}

// listed returns the stages of a job as a candidate, whose last stages may be dropped by its stop rule.
func listed(job topics.Job) candidate {
	c := candidate{name: "those of the configuration", prepare: job.Prepare, least: 1}
	for t, s := range job.Stages {
		if endsStages(s) {
			s.Stop = nil
		} else {
			c.least = t + 1
		}
		c.stages = append(c.stages, s)
	}
	return c
}

// stageOf returns a stage of a kind with the defaults of the job's task.
func stageOf(job topics.Job, kind string) schemas.Stage {
	s := solve.Defaults()
	if s.Features = stages.DefaultsOf(kind); stages.KindOf(s.Features).Grown {
		solve.GrownDefaults(&s)
	}
	if task := job.Examples.Task(); task != examples.OneLabel {
		s.Link = schemas.Link(model.LinksOf(task)[0])
	}
	return s
}

const (
	sparseHoldout = 0.2 // the holdout fraction for choosing the preparation and fit of sparse rows
	// enoughSparse is the approximate number of training rows for the choice: more rows take longer and choose the same.
	enoughSparse               = 8000
	quadraticRidge, otherRidge = 1, 0.3 // the ridges that preparations are compared with
	// quadraticPasses is the maximum number of passes of a chosen quadratic fit. The holdout loss may fall in a few more, the
	// error does not.
	quadraticPasses = 6
	// nearlyQuadratic is the maximum factor by which a quadratic loss with a larger ridge may be higher: the difference is not
	// significant, and the larger ridge has the smaller error (the rule of one standard error: Breiman, Friedman, Olshen and
	// Stone 1984).
	nearlyQuadratic = 1.025
	leastGain       = 0.01 // the fraction by which the loss must fall for the path of ridges to continue
)

// autoColumns reports whether a stage may need a ridge that is chosen by held-out rows: its features suit sparse rows, and its
// ridge is auto.
func autoColumns(s schemas.Stage) bool {
	return s.Ridge == schemas.RidgeAuto && slices.Contains(stages.KindOf(s.Features).Suits, stages.SparseRows)
}

// tuned returns the job with the preparation and the ridge with the lowest holdout loss, if its examples are sparse: first one
// of several preparations, if nothing configures how rows are prepared and fitted, and then a ridge, on a path from the
// largest to smaller ones, each fit starting from the weights of the previous one. With nothing configured, the default link
// is the identity, because for single labels it has the lowest error after few passes. A chain keeps its link, because
// updates on sparse rows can't have the identity, and its ridge, because they keep the past as a quadratic. A job that starts
// from a version keeps the settings of that version.
func (c *chooser) tuned(ctx context.Context) (topics.Job, error) {
	job := c.job
	if job.Warm != "" && job.Untuned {
		return c.asBefore(ctx)
	}
	if job.Warm != "" || c.chained && (!job.Untuned || len(model.CheckOccurring(job.Stages)) > 0) {
		return job, nil // the run reports the error
	}
	first, err := c.look(ctx, job)
	if errors.As(err, new(*protocol.NoExamplesError)) {
		return job, nil // the run reports errors in the messages
	}
	held := float64(c.rows) * cmp.Or(job.Examples.Holdout, sparseHoldout)
	if err != nil || !first.Sparse || c.rows > 0 && held < leastHeldOut {
		return job, err
	}
	trial := candidate{name: "the fit", stages: slices.Clone(job.Stages), prepare: job.Prepare, least: len(job.Stages), fit: true}
	stage, ridge := &trial.stages[0], schemas.Ridge(otherRidge)
	if task := job.Examples.Task(); job.Untuned && !c.chained && job.Unlinked && task == examples.OneLabel {
		names := model.LinksOf(task)
		stage.Link = schemas.Link(names[slices.IndexFunc(names, func(name string) bool { return link.Named(name).Quadratic })])
	}
	if job.Untuned && link.Named(stage.Link).Quadratic {
		stage.Passes, ridge = quadraticPasses, quadraticRidge
	}
	var fits []found
	if job.Untuned {
		if c.chained {
			ridge = schemas.RidgeAuto
		}
		// That of word counts, the same without column weights, and none, for rows that are already prepared.
		for _, trial.prepare = range []schemas.Prepare{{Scale: stages.ScaleUnit, Values: stages.ValuesLog, IDF: 1.5},
			{Scale: stages.ScaleNone}, {Scale: stages.ScaleUnit, Values: stages.ValuesLog}} {
			fit, err := c.try(ctx, trial.withRidge(ridge))
			if err != nil {
				return job, fmt.Errorf("choose a preparation: %w", err)
			}
			if fit.end > 0 {
				fits = append(fits, fit)
			}
		}
		if len(fits) > 0 {
			trial.prepare = slices.MinFunc(fits, byLoss).prepare
		}
	}
	if !c.chained && (!job.Untuned || len(fits) > 0) {
		if fits, err = c.path(ctx, trial); err != nil {
			return job, fmt.Errorf("choose a ridge: %w", err)
		}
	}
	if len(fits) == 0 {
		return job, nil // the run reports the error
	}
	best := slices.MinFunc(fits, byLoss)
	if s := best.stages; link.Named(s[len(s)-1].Link).Quadratic { // the first fit, with the largest ridge, whose loss is nearly the lowest
		best = fits[slices.IndexFunc(fits, func(f found) bool { return f.loss <= nearlyQuadratic*best.loss })]
	}
	job.Prepare, job.Stages = best.prepare, best.stages
	keys := fmt.Sprintf("ridge %v", c.fittedStage(best.stages).Ridge)
	if s := &best.stages[0]; job.Untuned {
		if link.Named(s.Link).Quadratic {
			s.Passes = max(1, best.passes)
		}
		keys = described(best.prepare, *s)
	}
	event.Notice(c.recorder, "stages: held-out rows are predicted best with %s, which now learns from all rows", keys)
	return job, nil
}

// look reads the first message that counts in a run of the job.
func (c *chooser) look(ctx context.Context, job topics.Job) (l dispatch.Look, err error) {
	plan, err := c.plans(job)
	if err != nil {
		return l, err
	}
	return dispatch.LookAt(ctx, c.pipeline, job, plan)
}

// asBefore returns the job with the preparation and the stage of the version that it starts from, if they were chosen.
func (c *chooser) asBefore(ctx context.Context) (topics.Job, error) {
	job := c.job
	m, err := c.pipeline.Model(ctx, job.Warm)
	if err != nil {
		return job, fmt.Errorf("warm start: %w", err)
	}
	before := m.Manifest.Plan
	if !m.Sparse() || len(before.Stages) != 1 || before.Stages[0].Features != job.Stages[0].Features {
		return job, nil // the plan reports the differences
	}
	if chosen := before.Prepare.Values != "" || job.Unlinked && before.Stages[0].Link != job.Stages[0].Link; chosen {
		job.Prepare, job.Stages = before.Prepare, before.Stages
	}
	return job, nil
}

func byLoss(a, b found) int { return cmp.Compare(a.loss, b.loss) }

// fittedStage returns the first stage of a fit whose ridge is chosen.
func (c *chooser) fittedStage(fit []schemas.Stage) schemas.Stage {
	return fit[slices.IndexFunc(c.job.Stages, autoColumns)]
}

// withRidge returns the candidate whose auto ridges are set.
func (c candidate) withRidge(ridge schemas.Ridge) candidate {
	c.stages = slices.Clone(c.stages)
	for i := range c.stages {
		if s := &c.stages[i]; autoColumns(*s) {
			s.Ridge = ridge
		}
	}
	return c
}

// path fits a candidate with each ridge, until the loss no longer falls. Each fit starts from the weights of the previous one, unless the
// loss is quadratic, since few passes from 0 are a part of that fit.
func (c *chooser) path(ctx context.Context, trial candidate) (fits []found, err error) {
	// Texts have as many words as rows, so the best ridge is much larger than for dense rows.
	for _, ridge := range []schemas.Ridge{3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001} {
		fit, err := c.try(ctx, trial.withRidge(ridge))
		if err != nil || fit.end == 0 {
			return fits, err
		}
		fits = append(fits, fit)
		if n := len(fits); n > 1 && fit.loss > (1-leastGain)*fits[n-2].loss {
			break
		}
		if !link.Named(c.fittedStage(trial.stages).Link).Quadratic {
			trial.from = fit.version
		}
	}
	return fits, nil
}

// enough returns the first spans with about enoughSparse rows, assuming equal spans; half of the spans if the number of rows is unknown.
func (c *chooser) enough(spans coverage.Spans) coverage.Spans {
	most := (len(spans) + 1) / 2
	if n := int64(len(spans)); c.rows > 0 {
		most = min(len(spans), int((enoughSparse*n+c.rows-1)/c.rows))
	}
	return slices.Clone(spans[:most])
}

// described formats a preparation and a fit as configuration keys.
func described(p schemas.Prepare, s schemas.Stage) string {
	return fmt.Sprintf("prepare: {values: %s, idf: %g, scale: %s}, link: %s, passes: %d, ridge: %v", cmp.Or(p.Values, stages.ValuesNone),
		p.IDF, p.Scale, s.Link, s.Passes, s.Ridge)
}
