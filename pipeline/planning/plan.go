package planning

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/stages"
)

// Plan returns the plan of a run of the job. The plan fixes the current spans of the examples topic, and which messages in
// them count: those of the job's files, given by their seals, or, if the job has no training files, all sealed sources and
// all messages without a source. here is the arithmetic of the process.
func Plan(ctx context.Context, p *topics.Pipeline, job topics.Job, here schemas.Arithmetic, sources []schemas.SourceSeal,
	l *protocol.Ledger, r topics.ExamplesRetention) (*schemas.Plan, error) {
	plan := OfJob(p, job, here)
	all, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, err
	}
	bounds := all
	if plan.Foreign {
		sealed, err := topics.SealedBy(ctx, p, l)
		if err != nil {
			return nil, err
		}
		if bounds, err = topics.Staying(ctx, p, r, all); err != nil {
			return nil, err
		}
		for n := range all {
			if cut := (coverage.Span{Partition: n, From: all[n].From, To: bounds[n].From}); !cut.Empty() {
				plan.Expiring = append(plan.Expiring, cut)
			}
		}
		held := bounds
		if bounds, plan.Outside, err = topics.Within(ctx, p, job.Examples, held); err != nil {
			return nil, err
		}
		if len(plan.Outside) > 0 && !slices.ContainsFunc(bounds, func(s coverage.Span) bool { return !s.Empty() }) {
			return nil, &topics.NothingBetweenError{Topic: p.Topics.Examples, From: job.Examples.From, To: job.Examples.To, Has: held}
		}
		for _, seal := range Remaining(sealed, held) {
			if topics.Overlaps(&seal, bounds) {
				sources = append(sources, seal)
			}
		}
		for _, seal := range sealed.Removed() {
			if seal.Held(held) != schemas.HeldNot && topics.Overlaps(seal, bounds) {
				plan.Removed = append(plan.Removed, seal.Name())
			}
		}
	}
	for _, seal := range sources {
		plan.Sources = append(plan.Sources, seal.InPlan())
	}
	plan.Spans = slices.DeleteFunc(coverage.Spans(slices.Clone(bounds)), coverage.Span.Empty)
	if !plan.Foreign {
		plan.Spans = Narrow(plan.Spans, plan.Sources)
	}
	if len(plan.Spans) == 0 {
		none := &protocol.NoExamplesError{Topic: p.Topics.Examples, Other: p.Foreign != nil, From: job.Examples.FromTopic}
		if none.From != "" {
			if none.Unusable, err = source.Unusable(ctx, p, none.From); err != nil {
				return nil, err
			}
		}
		return nil, none
	}
	f, err := heed.Read(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := heed.CheckNewest(ctx, p, l, f); err != nil {
		return nil, err
	}
	if err := heed.Compare(ctx, p, f); err != nil {
		return nil, err
	}
	plan.Forgotten, plan.Heeded = f.Rows.Within(plan.Spans), f.Heeded()
	if err := plan.Check(); err != nil {
		return nil, fmt.Errorf("plan a run over %s: %w", p.Topics.Examples, err)
	}
	earlier, err := warmStart(ctx, p, job.Warm, f)
	if err != nil {
		return nil, err
	}
	var from *schemas.Plan
	if earlier != nil {
		from = earlier.Plan
	}
	plan.Stages = stages.Placed(plan.Stages, from)
	if plan.Prepare, err = PrepareOf(ctx, p, job, plan, from); err == nil && earlier != nil {
		plan.Warm, err = warmFrom(plan, earlier)
	}
	if err != nil {
		return nil, err
	}
	plan.Group = schemas.ShareSize(job.Group, len(all), sharesOf(plan))
	plan.Submission = p.Fresh()
	if plan.Since, err = p.Now(ctx); err != nil {
		return nil, err
	}
	plan.Since.Plans = l.Next
	return plan, nil
}

// OfJob returns what a job and the arithmetic of the process decide of a plan.
func OfJob(p *topics.Pipeline, job topics.Job, here schemas.Arithmetic) *schemas.Plan {
	o := job.Examples
	plan := &schemas.Plan{
		Name: job.Name, Input: InputOf(o), Classes: o.Classes, ClassWeight: o.ClassWeight, Targets: o.Targets, Labels: o.PlanLabels(),
		Augment: o.Augment, Missing: o.Missing.Mode, Holdout: o.Holdout, OnBadMessage: job.OnBadMessage, Outcomes: o.Outcome.Topic != "",
		Prepare: job.Prepare, Stages: job.Members(), Intercept: job.Intercept, Threshold: job.Threshold,
		Arithmetic: here, Seed: job.Seed, Segment: job.Segment, Foreign: len(o.Train) == 0, Topic: topics.ForeignTopic(p),
	}
	plan.Arithmetic.Any = job.Arithmetic == ArithmeticAny
	if job.Average > 1 {
		plan.Average = job.Average
	}
	return plan
}

// InputOf returns a plan's description of how files and topics were read.
func InputOf(o ingest.Options) schemas.Input {
	input := schemas.Input{
		Format: o.Format, Label: string(o.Label), Weight: string(o.Weight), LabelColumns: o.LabelColumns, Header: o.Header,
		Delimiter: o.Delimiter, Encoding: o.Encoding,
		Use: o.Columns.Use, Drop: o.Columns.Drop, Categorical: o.Categorical, Times: o.Times.Parts(),
		Image: o.Shape(),
	}
	if o.Text != "" {
		input.Text, input.WordColumns, input.WordPhrases = string(o.Text), o.Words.Columns, o.Words.Phrases
		input.Vocabulary = o.Words.Counted()
	}
	if h := o.Hashes(); h.Columns > 0 {
		input.Hash = &schemas.Hash{Columns: int(h.Columns), Cross: h.Cross}
	}
	if e := o.Found.Extent; e.Width > 0 {
		input.FirstIndex = &e.First
	}
	if o.FromTopic != "" {
		input.Format = "" // the format of values: files to predict have their own
	}
	if !slices.Equal(o.MissingValues, layout.DefaultMissingValues()) {
		if input.MissingValues = o.MissingValues; len(o.MissingValues) == 0 {
			input.MissingValues = []string{""} // always missing: an empty list would mean the defaults
		}
	}
	return input
}

// Remaining returns a seal of each source that a topic with those bounds still has: the latest of the complete ones, or
// else the latest of the partial ones.
func Remaining(l *protocol.Ledger, bounds []coverage.Span) (seals []schemas.SourceSeal) {
	for id := range l.Sources() {
		if best := source.Largest(l.Seals(id), bounds); best != nil && best.Held(bounds) > schemas.HeldNot {
			seals = append(seals, *best)
		}
	}
	return seals
}

// Narrow reduces each span to the range between the first and the last message of the sources. Spans without such messages
// are dropped.
func Narrow(spans coverage.Spans, sources []schemas.SourceSeal) (narrowed coverage.Spans) {
	used := map[int]coverage.Span{}
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
		cut = coverage.Span{Partition: span.Partition, From: max(cut.From, span.From), To: min(cut.To, span.To)}
		if !cut.Empty() {
			narrowed = append(narrowed, cut)
		}
	}
	return narrowed
}

// warmStart returns the version that a plan starts from, by number, run, or protocol.Latest. If version is empty,
// warmStart returns nil. The version must not be trained on forgotten rows.
func warmStart(ctx context.Context, p *topics.Pipeline, version string, f *heed.Forgotten) (*schemas.Manifest, error) {
	if version == "" {
		return nil, nil
	}
	earlier, err := p.Model(ctx, version) // the complete version: the run can't start if a part is missing
	if err != nil {
		return nil, fmt.Errorf("warm start: %w", err)
	}
	m := earlier.Manifest
	learnt, err := heed.HaveLearnt(ctx, p, f)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(learnt, func(place schemas.Place) bool { return place.Run == m.Run }) {
		return nil, fmt.Errorf("warm start: %w", &heed.LearntError{Version: m.Version})
	}
	return m, nil
}

// warmFrom returns the warm start of a plan from a version.
func warmFrom(plan *schemas.Plan, m *schemas.Manifest) (*schemas.Warm, error) {
	if err := CheckFeatures(plan, m.Plan); err != nil {
		return nil, fmt.Errorf("warm start from version %d: %w", m.Version, err)
	}
	return &schemas.Warm{Run: m.Run, Manifest: m.Digest()}, nil
}

// CheckWords returns an error if the words of rows would have other columns than in an earlier plan: such rows can't be
// combined. It does not compare counted vocabularies, which are known only after ingest.
func CheckWords(input, earlier schemas.Input) error {
	switch {
	case input.WordColumns != earlier.WordColumns || input.WordPhrases != earlier.WordPhrases:
		return errors.New("other words under examples.words")
	case !reflect.DeepEqual(input.Hash, earlier.Hash):
		return errors.New("other hashes of words under prepare.hash")
	}
	return nil
}

// CheckFeatures returns an error unless a run has the features and links of an earlier run, without which it can't start
// from its weights.
func CheckFeatures(plan, earlier *schemas.Plan) error {
	switch {
	case plan.Seed != earlier.Seed:
		return fmt.Errorf("seed %d, this run has %d: a warm start needs the same seed", earlier.Seed, plan.Seed)
	case plan.Prepare != earlier.Prepare:
		return fmt.Errorf("prepare: %s: a warm start needs the same preparation", Differences(earlier.Prepare, plan.Prepare, "this run"))
	case plan.Task() != earlier.Task() || !slices.Equal(plan.Targets, earlier.Targets):
		return fmt.Errorf("targets %q, this run has %q: a warm start needs the same targets", earlier.Targets, plan.Targets)
	case !plan.ClassWeight.Equal(earlier.ClassWeight):
		return fmt.Errorf("examples.class_weight %v, this run has %v: a warm start needs the same weights of classes",
			earlier.ClassWeight, plan.ClassWeight)
	case plan.Input.WordColumns != earlier.Input.WordColumns || plan.Input.WordPhrases != earlier.Input.WordPhrases ||
		!slices.Equal(plan.Input.Vocabulary, earlier.Input.Vocabulary):
		return errors.New("other words than this run's: a warm start needs the same words, which examples.words.vocabulary: hashed always has")
	case !reflect.DeepEqual(plan.Input.Hash, earlier.Input.Hash):
		return errors.New("other hashes of words than this run's: a warm start needs the same keys under prepare.hash")
	case (plan.Members() > 1 || earlier.Members() > 1) && plan.MemberStages() != earlier.MemberStages():
		return fmt.Errorf("%d members of %d stages each, this run has %d of %d: a warm start needs members with as many stages",
			earlier.Members(), earlier.MemberStages(), plan.Members(), plan.MemberStages())
	case plan.Intercept != earlier.Intercept:
		return fmt.Errorf("intercept %v, this run has %v: a warm start needs the same intercept", earlier.Intercept, plan.Intercept)
	}
	for t := range min(len(plan.Stages), len(earlier.Stages)) {
		here, there := plan.Stages[t], earlier.Stages[t]
		switch {
		case here.Features != there.Features:
			return fmt.Errorf("stage %d: features: %s: a warm start needs the same features", t, Differences(there.Features, here.Features,
				"this run"))
		case here.Scores != there.Scores:
			return fmt.Errorf("stage %d: scores %v, this run has %v: a warm start needs the same scores", t, there.Scores, here.Scores)
		case here.Link != there.Link:
			return fmt.Errorf("stage %d: link %s, this run has %s: a warm start needs the same link", t, there.Link, here.Link)
		}
	}
	for t := len(earlier.Stages); t < len(plan.Stages); t++ {
		if f := plan.Stages[t].Features; stages.Learns(f) {
			return fmt.Errorf("stage %d: features of kind %s need a survey, but a warm start uses the version's survey: such stages "+
				"can't be added", t, f.Kind)
		}
	}
	return nil
}
