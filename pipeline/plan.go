package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// plan returns the plan of a run of the job. The plan fixes the spans of the examples topic as they are now, and what counts in
// them: the sources of the job's files, whose seals are given, or, if the job has no files to train on, all sealed sources and all
// messages without a source.
func (p *pipeline) plan(ctx context.Context, job Job, blas *kernel.BLAS, sources []schemas.SourceSeal, l *run.Ledger, r retention) (*schemas.Plan, error) {
	plan := &schemas.Plan{
		Name: job.Name, Input: inputOf(job.Examples), Classes: job.Examples.Classes, ClassWeight: job.Examples.ClassWeight, Targets: job.Examples.Targets, Labels: job.Examples.PlanLabels(), Augment: schemas.Augment(job.Examples.Augment), Missing: job.Examples.Missing, Holdout: job.Examples.Holdout,
		OnBadMessage: job.OnBadMessage, Prepare: job.Prepare, Stages: job.members(), Intercept: job.Intercept,
		Arithmetic: arithmetic(blas), Seed: job.Seed, Segment: job.Segment, Foreign: len(job.Examples.Train) == 0, Topic: p.archiveTopic(),
	}
	plan.Arithmetic.Any = job.Arithmetic == ArithmeticAny
	if job.Average > 1 {
		plan.Average = job.Average
	}
	all, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, err
	}
	bounds := all
	if plan.Foreign {
		sealed, err := p.sealedBy(ctx, l)
		if err != nil {
			return nil, err
		}
		if bounds, err = p.staying(ctx, r, all); err != nil {
			return nil, err
		}
		for n := range all {
			if cut := (schemas.Span{Partition: n, From: all[n].From, To: bounds[n].From}); !cut.Empty() {
				plan.Expiring = append(plan.Expiring, cut)
			}
		}
		held := bounds
		if bounds, plan.Outside, err = p.within(ctx, job.Examples, held); err != nil {
			return nil, err
		}
		if len(plan.Outside) > 0 && !slices.ContainsFunc(bounds, func(s schemas.Span) bool { return !s.Empty() }) {
			return nil, &NothingBetweenError{p.Topics.Examples, job.Examples.From, job.Examples.To, held}
		}
		for _, seal := range remaining(sealed, held) {
			if overlaps(&seal, bounds) {
				sources = append(sources, seal)
			}
		}
		for _, seal := range sealed.Removed() {
			if seal.Held(held) != schemas.HeldNot && overlaps(seal, bounds) {
				plan.Removed = append(plan.Removed, seal.Name())
			}
		}
	}
	for _, seal := range sources {
		seal.Files = nil
		plan.Sources = append(plan.Sources, seal)
	}
	plan.Spans = slices.DeleteFunc(schemas.Spans(slices.Clone(bounds)), schemas.Span.Empty)
	if !plan.Foreign {
		plan.Spans = narrow(plan.Spans, plan.Sources)
	}
	if len(plan.Spans) == 0 {
		return nil, &run.NoExamplesError{Topic: p.Topics.Examples, Other: p.archive != nil}
	}
	f, err := p.forgotten(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.checkNewest(ctx, l, f); err != nil {
		return nil, err
	}
	if err := p.compare(ctx, f); err != nil {
		return nil, err
	}
	plan.Forgotten, plan.Heeded = f.rows.Within(plan.Spans), f.heeded()
	if err := plan.Check(); err != nil {
		return nil, fmt.Errorf("plan a run over %s: %w", p.Topics.Examples, err)
	}
	if plan.Warm, err = p.warm(ctx, job.Warm, plan, f); err != nil {
		return nil, err
	}
	plan.Submission = p.Fresh()
	if plan.Since, err = p.Now(ctx); err != nil {
		return nil, err
	}
	plan.Since.Plans = l.Next
	return plan, nil
}

func inputOf(o ingest.Options) schemas.Input {
	input := schemas.Input{
		Format: o.Format, Label: string(o.Label), Weight: string(o.Weight), LabelColumns: o.LabelColumns, Header: o.Header, Delimiter: o.Delimiter,
		Use: o.Columns.Use, Drop: o.Columns.Drop, Categorical: o.Categorical,
		Image: o.Shape(),
	}
	if o.Text != "" {
		input.Text, input.WordColumns, input.WordPhrases = string(o.Text), o.Words.Columns, o.Words.Phrases
		input.Vocabulary = o.CountedVocabulary()
	}
	if o.FromTopic != "" {
		input.Format = "" // that of values: files to predict tell theirs
	}
	if !slices.Equal(o.MissingValues, ingest.DefaultMissingValues()) {
		input.MissingValues = o.MissingValues
	}
	return input
}

// remaining returns a seal of each source of which a topic with those bounds has something left: the latest of those that it has whole,
// or else the latest of those that it has in part.
func remaining(l *run.Ledger, bounds []schemas.Span) (seals []schemas.SourceSeal) {
	for id := range l.Sources() {
		if best := largest(l.Seals(id), bounds); best != nil && best.Held(bounds) > schemas.HeldNot {
			seals = append(seals, *best)
		}
	}
	return seals
}

// largest returns the seal of which a topic with those bounds has most: of several that it has whole, in part, or not at all, the latest.
// It returns nil if there are no seals.
func largest(seals []*schemas.SourceSeal, bounds []schemas.Span) (best *schemas.SourceSeal) {
	for _, seal := range seals {
		if best == nil || seal.Held(bounds) >= best.Held(bounds) {
			best = seal
		}
	}
	return best
}

// narrow cuts each span to the range from the first to the last message of the sources. Spans without such messages are dropped.
func narrow(spans schemas.Spans, sources []schemas.SourceSeal) (narrowed schemas.Spans) {
	used := map[int]schemas.Span{}
	for _, s := range sources {
		for _, span := range s.Spans {
			if all, known := used[span.Partition]; known {
				span.From, span.To = min(all.From, span.From), max(all.To, span.To)
			}
			used[span.Partition] = span
		}
	}
	for _, span := range spans {
		cut := used[span.Partition]
		cut = schemas.Span{Partition: span.Partition, From: max(cut.From, span.From), To: min(cut.To, span.To)}
		if !cut.Empty() {
			narrowed = append(narrowed, cut)
		}
	}
	return narrowed
}

// warm returns the version that a plan starts from. version is its number, its run, or run.Latest. If version is empty, warm
// returns nil. What the version has learnt must not be forgotten.
func (p *pipeline) warm(ctx context.Context, version string, plan *schemas.Plan, f *forgotten) (*schemas.Warm, error) {
	if version == "" {
		return nil, nil
	}
	earlier, err := p.Model(ctx, version) // the whole version: the run could not begin if a part of it were gone
	if err != nil {
		return nil, fmt.Errorf("warm start: %w", err)
	}
	m := earlier.Manifest
	learnt, err := p.haveLearnt(ctx, f)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(learnt, func(place schemas.Place) bool { return place.Run == m.Run }) {
		return nil, fmt.Errorf("warm start: %w", &LearntError{m.Version})
	}
	if err := checkFeatures(plan, m.Plan); err != nil {
		return nil, fmt.Errorf("warm start from version %d: %w", m.Version, err)
	}
	return &schemas.Warm{Run: m.Run, Manifest: m.Digest()}, nil
}

// checkFeatures returns an error unless a run has the features and links of an earlier run. Only then can it start from its
// weights.
func checkFeatures(plan, earlier *schemas.Plan) error {
	switch {
	case plan.Seed != earlier.Seed:
		return fmt.Errorf("seed %d, this run has %d: a warm start needs the same seed", earlier.Seed, plan.Seed)
	case plan.Prepare != earlier.Prepare:
		return fmt.Errorf("prepare: %s: a warm start needs the same preparation", differences(earlier.Prepare, plan.Prepare, "this run"))
	case plan.Task() != earlier.Task() || !slices.Equal(plan.Targets, earlier.Targets):
		return fmt.Errorf("other targets than this run's %q: a warm start needs the same: %q", plan.Targets, earlier.Targets)
	case !plan.ClassWeight.Equal(earlier.ClassWeight):
		return fmt.Errorf("examples.class_weight %v, this run has %v: a warm start needs the same weights of classes", earlier.ClassWeight, plan.ClassWeight)
	case plan.Input.WordColumns != earlier.Input.WordColumns || plan.Input.WordPhrases != earlier.Input.WordPhrases || !slices.Equal(plan.Input.Vocabulary, earlier.Input.Vocabulary):
		return errors.New("other words than this run's under examples.words: a warm start needs the same, as a hash always gives them")
	case (plan.Members() > 1 || earlier.Members() > 1) && plan.MemberStages() != earlier.MemberStages():
		return fmt.Errorf("%d members of %d stages each, this run has %d of %d: a warm start needs members with as many stages", earlier.Members(), earlier.MemberStages(), plan.Members(), plan.MemberStages())
	case plan.Intercept != earlier.Intercept:
		return fmt.Errorf("intercept %v, this run has %v: a warm start needs the same intercept", earlier.Intercept, plan.Intercept)
	}
	for t := range min(len(plan.Stages), len(earlier.Stages)) {
		here, there := plan.Stages[t], earlier.Stages[t]
		switch {
		case here.Features != there.Features:
			return fmt.Errorf("stage %d: features: %s: a warm start needs the same features", t, differences(there.Features, here.Features, "this run"))
		case here.Scores != there.Scores:
			return fmt.Errorf("stage %d: scores %v, this run has %v: a warm start needs the same scores", t, there.Scores, here.Scores)
		case here.Link != there.Link:
			return fmt.Errorf("stage %d: link %s, this run has %s: a warm start needs the same link", t, there.Link, here.Link)
		}
	}
	for t := len(earlier.Stages); t < len(plan.Stages); t++ {
		if f := plan.Stages[t].Features; stages.Learns(f) {
			return fmt.Errorf("stage %d: features of kind %s are learnt in a survey, and a warm start has that of the version: it can't have more such stages", t, f.Kind)
		}
	}
	return nil
}
