package pipeline

import (
	"context"
	"fmt"
	"math"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// plan returns the plan of a run of the job. The plan fixes the spans of the examples topic as they are now, and what counts in
// them: the sources of the job's files, or, if the job has no files to train on, all sealed sources and all messages without a
// source.
func (p *pipeline) plan(ctx context.Context, job Job, blas *kernel.BLAS, sources []string, l *run.Ledger, rec event.Recorder) (*schemas.Plan, error) {
	plan := &schemas.Plan{
		Name: job.Name, Input: inputOf(job.Examples), Classes: job.Examples.Classes, Missing: job.Examples.Missing, Holdout: job.Examples.Holdout,
		OnBadMessage: job.OnBadMessage, Prepare: job.Prepare, Stages: job.Stages, Intercept: job.Intercept,
		Seed: job.Seed, Segment: job.Segment, Foreign: len(job.Examples.Train) == 0,
	}
	var err error
	if plan.Arithmetic, err = arithmetic(blas); err != nil {
		return nil, err
	}
	if err := p.checkRetention(ctx, rec); err != nil {
		return nil, err
	}
	if plan.Foreign {
		sources = l.SourceIDs()
	}
	if plan.Sources, err = p.seals(ctx, l, sources, !plan.Foreign); err != nil {
		return nil, err
	}
	if plan.Spans, err = p.spans(ctx); err != nil {
		return nil, err
	}
	if !plan.Foreign {
		plan.Spans = narrow(plan.Spans, plan.Sources)
	}
	if len(plan.Spans) == 0 {
		return nil, &run.NoExamplesError{Topic: p.Topics.Examples}
	}
	if err := plan.Check(); err != nil {
		return nil, fmt.Errorf("plan a run over %s: %w", p.Topics.Examples, err)
	}
	if plan.Warm, err = p.warm(ctx, job.Warm, plan); err != nil {
		return nil, err
	}
	plan.Ended = l.Ended(plan.Content())
	if plan.Since, err = p.since(ctx); err != nil {
		return nil, err
	}
	return plan, nil
}

func inputOf(o ingest.Options) schemas.Input {
	return schemas.Input{Format: o.Format, Label: string(o.Label), Weight: string(o.Weight), Header: o.Header}
}

// seals returns the seals of the sources whose messages are still on the topic. With all, a source that is missing is an error;
// otherwise it is skipped.
func (p *pipeline) seals(ctx context.Context, l *run.Ledger, ids []string, all bool) (seals []schemas.SourceSeal, err error) {
	for _, id := range ids {
		seal, err := p.sealed(ctx, l, id)
		if err != nil {
			return nil, err
		}
		switch {
		case seal != nil:
			seals = append(seals, *seal)
		case all:
			return nil, fmt.Errorf("source %s is no longer on %s", schemas.Digest(id).Short(), p.Topics.Examples)
		}
	}
	return seals, nil
}

// spans returns the offsets that each partition of the examples topic has now, without empty partitions.
func (p *pipeline) spans(ctx context.Context) (spans schemas.Spans, err error) {
	partitions, err := p.Log.Partitions(ctx, p.Topics.Examples)
	if err != nil {
		return nil, err
	}
	for n := range partitions {
		first, end, err := p.Log.Bounds(ctx, p.Topics.Examples, n)
		if err != nil {
			return nil, err
		}
		if span := (schemas.Span{Partition: n, From: first, To: end}); !span.Empty() {
			spans = append(spans, span)
		}
	}
	return spans, nil
}

// narrow cuts each span to the range from the first to the last message of the sources. Spans without such messages are dropped.
func narrow(spans schemas.Spans, sources []schemas.SourceSeal) (narrowed schemas.Spans) {
	for _, span := range spans {
		from, to := int64(math.MaxInt64), int64(0)
		for _, s := range sources {
			for _, source := range s.Spans {
				if source.Partition == span.Partition {
					from, to = min(from, source.From), max(to, source.To)
				}
			}
		}
		if cut := (schemas.Span{Partition: span.Partition, From: max(from, span.From), To: min(to, span.To)}); !cut.Empty() {
			narrowed = append(narrowed, cut)
		}
	}
	return narrowed
}

// since returns the ends of weights and statistics as they are now: the run's own records begin there.
func (p *pipeline) since(ctx context.Context) (s schemas.Since, err error) {
	if _, s.Weights, err = p.Log.Bounds(ctx, p.Topics.Weights, 0); err != nil {
		return s, err
	}
	partitions, err := p.Log.Partitions(ctx, p.Topics.Statistics)
	if err != nil {
		return s, err
	}
	s.Statistics = make([]int64, partitions)
	for n := range s.Statistics {
		if _, s.Statistics[n], err = p.Log.Bounds(ctx, p.Topics.Statistics, n); err != nil {
			return s, err
		}
	}
	return s, nil
}

// warm returns the version that a plan starts from. version is its number, its run, or run.Latest. If version is empty, warm
// returns nil.
func (p *pipeline) warm(ctx context.Context, version string, plan *schemas.Plan) (*schemas.Warm, error) {
	if version == "" {
		return nil, nil
	}
	m, err := p.Version(ctx, version)
	if err != nil {
		return nil, fmt.Errorf("warm start: %w", err)
	}
	if err := checkFeatures(plan, m.Plan); err != nil {
		return nil, fmt.Errorf("warm start from version %d: %w", m.Version, err)
	}
	return &schemas.Warm{Run: m.Run, Manifest: schemas.DigestJSON(m)}, nil
}

// checkFeatures returns an error unless a run has the features and links of an earlier run. Only then can it start from its
// weights.
func checkFeatures(plan, earlier *schemas.Plan) error {
	switch {
	case plan.Seed != earlier.Seed:
		return fmt.Errorf("seed %d, this run has %d: a warm start needs the same seed", earlier.Seed, plan.Seed)
	case plan.Prepare != earlier.Prepare:
		return fmt.Errorf("prepare: %s: a warm start needs the same preparation", differences(earlier.Prepare, plan.Prepare, "this run"))
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
	return nil
}
