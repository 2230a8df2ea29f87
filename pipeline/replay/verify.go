// Package replay executes runs outside the pipeline, on temporary topics that it deletes afterwards: to verify a version, to
// search for better options, and to choose stages by the holdout loss of models with them.
//
//	version ──Verify──▶ the same digests, or the first that differs
//	jobs ──Search──▶ candidates with reports
//	job without stages, or whose stop rule ends its stages ──Resolve──▶ job with the stages of its run
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	"github.com/stagewise/stagewise/stages"
)

// Verified is a version that was reproduced from the log with the same weights.
type Verified struct {
	Version int         // its number
	Digest  wire.Digest // of its weights
}

// Verify reproduces a version of the job's pipeline, p, from the log: its last full run, and the updates since. It
// compares the weights with those of all known versions on the way, and returns these versions in order, the requested one
// last. version is its number, its run, or [protocol.Latest]. Verify writes to topics of its own, and deletes them at the
// end. The error is a *[DigestError] if the weights of a version differ, and a *[source.MissingPlanError] or a
// *[MissingExamplesError] if the log lacks what the version was made from.
func Verify(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, version string,
	rec event.Recorder) (same []Verified, err error) {
	rec = event.Serialised(rec)
	asked, err := p.Version(ctx, version)
	if err != nil {
		return nil, err
	}
	past, err := source.ReadHistory(ctx, p)
	if err != nil {
		return nil, err
	}
	runs, err := past.Runs(asked)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if err := topics.CheckExamples(p, runs[i].Plan, "the run of "+runs[i].Name()); err != nil {
			return nil, err
		}
	}
	if err := CheckHistory(ctx, p, runs, by.Arithmetic, rec); err != nil {
		return nil, err
	}
	again := &trials{pipeline: p, process: by, job: job, word: "verify", recorder: rec}
	defer func() { err = errors.Join(err, again.close(ctx)) }()
	if err := again.open(ctx); err != nil {
		return nil, err
	}
	var parent *schemas.Manifest
	for i := range runs {
		r := &runs[i]
		if parent, err = again.make(ctx, r, parent); err != nil {
			return same, fmt.Errorf("reproduce %s: %w", r.Name(), err)
		}
		if r.Manifest == nil {
			continue
		}
		if parent.WeightsDigest != r.Manifest.WeightsDigest {
			return same, again.differs(ctx, r, parent)
		}
		same = append(same, Verified{r.Manifest.Version, parent.WeightsDigest})
	}
	return same, nil
}

// CheckHistory returns an error with the missing data if this process can't reproduce runs.
func CheckHistory(ctx context.Context, p *topics.Pipeline, runs []source.EarlierRun, here schemas.Arithmetic, rec event.Recorder) error {
	mixed := false
	for i := range runs {
		if there := runs[i].Plan.Arithmetic; !there.Admits(here) {
			return fmt.Errorf("%s was made with a different arithmetic (%s), so its digest may differ. Verify it on such a machine, with the "+
				"same BLAS and release", runs[i].Name(), dispatch.Differences(there, here, "this process"))
		} else if there.Any {
			mixed = true
		}
	}
	if mixed {
		event.Notice(rec, "the plan accepts machines of any arithmetic (arithmetic: any): if another kind of machine "+
			"took part, the digests differ")
	}
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return err
	}
	missing := &MissingExamplesError{Topic: p.Topics.Examples}
	for i := range runs {
		needs := slices.Clone(runs[i].Plan.Spans)
		if u := runs[i].Plan.Update(); u != nil {
			for _, c := range slices.Concat(u.Refresh, u.Leave) {
				needs = append(needs, c.Spans()...)
			}
		}
		for _, needed := range needs {
			gone := needed
			switch n := needed.Partition; {
			case n >= len(bounds), needed.To > bounds[n].To:
			case needed.From < bounds[n].From:
				gone.To = min(needed.To, bounds[n].From)
			default:
				continue
			}
			missing.First, missing.Spans = cmp.Or(missing.First, runs[i].Name()), append(missing.Spans, gone)
		}
	}
	if len(missing.Spans) == 0 {
		return nil
	}
	missing.Spans = missing.Spans.Hulls()
	if p.Remade != nil {
		missing.From, _ = p.Remade.Source()
	}
	return missing
}

// make reproduces a run that starts from parent, the reproduced previous version, and returns the manifest of its version.
func (t *trials) make(ctx context.Context, r *source.EarlierRun, parent *schemas.Manifest) (made *schemas.Manifest, err error) {
	plan := *r.Plan
	if plan.Warm != nil {
		plan.Warm = &schemas.Warm{Run: parent.Run, Manifest: parent.Digest()}
	}
	if plan.Chain != nil {
		chain := *plan.Chain
		chain.Parent = plan.Warm
		if chain.Gate, err = t.gate(ctx, r.Plan, plan.Warm); err != nil {
			return nil, err
		}
		plan.Chain = &chain
	}
	report, made, err := t.run(ctx, &plan)
	if err == nil && report.Retrain != nil {
		report.Retrain.Version, report.Retrain.Seconds = r.Version, report.Seconds
		t.recorder.Record(event.Retrained{RetrainReport: *report.Retrain, Number: plan.Chain.Number})
	}
	return made, err
}

// gate returns the gate of a reproduced run, whose parent was reproduced as warm. A gate does not affect weights, but holdout
// rows are measured in its visit with the final weights.
func (t *trials) gate(ctx context.Context, plan *schemas.Plan, warm *schemas.Warm) (*schemas.Gate, error) {
	if plan.Chain.Gate == nil {
		return nil, nil
	}
	gate := *plan.Chain.Gate
	if plan.Warm != nil && gate.Offered.Run == plan.Warm.Run {
		gate.Offered = *warm
		return &gate, nil
	}
	offered, err := t.pipeline.ModelOf(ctx, &gate.Offered)
	switch {
	case protocol.IsMissing(err):
		event.Notice(t.recorder, "the version of run %s, with which the gate compared, is gone: the holdout error may be that of "+
			"earlier weights", gate.Offered.Run)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the version with which the gate compared: %w", err)
	}
	t.Remember(offered) // the topics of the trials lack it
	return &gate, nil
}

// differs returns the error for a version whose reproduced weights differ, with the examples that have changed.
func (t *trials) differs(ctx context.Context, r *source.EarlierRun, made *schemas.Manifest) error {
	differs := &DigestError{Version: r.Version, Want: r.Manifest.WeightsDigest, Got: made.WeightsDigest, Topic: t.pipeline.Topics.Examples}
	then, err := t.pipeline.Survey(ctx, r.Manifest.Run)
	if err == nil {
		now, failed := t.Survey(ctx, made.Run)
		for i, covered := range then.Covered {
			if failed == nil && (i >= len(now.Covered) || !covered.Same(now.Covered[i])) {
				differs.Changed = append(differs.Changed, covered.Spans...)
			}
		}
		err = failed
	}
	differs.Uncompared = err
	return differs
}

// DigestError means that a reproduced version has different weights.
type DigestError struct {
	Version   int            // version number
	Want, Got wire.Digest    // digests in the manifest and of the reproduction
	Topic     string         // examples topic
	Changed   coverage.Spans // spans with other examples than those of the run

	Uncompared error // reason why the examples were not compared; nil: they were
}

// Unwrap returns the reason why the examples were not compared; nil if they were.
func (e *DigestError) Unwrap() error { return e.Uncompared }

// Error includes both digests, and the examples that have changed.
func (e *DigestError) Error() string {
	text := fmt.Sprintf("the weights of version %d have digest %s; reproduced, they have digest %s", e.Version, e.Want, e.Got)
	if e.Uncompared != nil {
		return fmt.Sprintf("%s: read what it was trained on: %v", text, e.Uncompared)
	}
	if len(e.Changed) == 0 {
		return text + ": the examples are the ones it was trained on"
	}
	return fmt.Sprintf("%s: the examples on %s%s are not the ones it was trained on", text, e.Topic, topics.Listed(e.Changed))
}

// MissingExamplesError means that a version can't be reproduced because examples are gone.
type MissingExamplesError struct {
	Topic string         // examples topic
	Spans coverage.Spans // missing spans, one for each partition
	First string         // first version trained on them: "version 3"
	From  string         // topic from which they can't be made again either; "": they can't be made again
}

// Error includes partitions and offsets.
func (e *MissingExamplesError) Error() string {
	text := fmt.Sprintf("%s was trained on examples that were deleted: %s%s", e.First, e.Topic, topics.Listed(e.Spans))
	if e.From != "" {
		return fmt.Sprintf("%s; and %s no longer has the messages that they were made from: increase its retention", text, e.From)
	}
	return text + ". topics.retention.examples sets how long examples are retained"
}

// Candidate is a run of a search.
type Candidate struct {
	Plan   *schemas.Plan
	Report *schemas.Report // nil: the run has failed
	Err    error           // cause of the failure; a *[dispatch.RunError]

	version *schemas.Warm // of the run; nil: the run has failed
}

// SearchIngested trains all jobs, one after the other, and calls with for each when it has ended. The weights are
// bit-identical to those of separate runs of the jobs. The jobs may only differ in stages, average, preparation, class
// weight, seed or intercept: their files were ingested, and all runs are over the current spans of the examples topic. An
// error of with ends the search. With folds, at least two, each job is trained once per fold, and each run holds out one fold
// instead of the job's holdout; runs with the same fold are consecutive, because they share more data.
func SearchIngested(ctx context.Context, p *topics.Pipeline, by dispatch.Process, jobs []topics.Job,
	files *source.Ingested, folds int, rec event.Recorder, with func(int, *Candidate) error) (err error) {
	t := &trials{pipeline: p, process: by, job: jobs[0], word: "search", recorder: rec}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	planned := ingestedPlans(ctx, p, by, files)
	for fold := range max(folds, 1) {
		for i, job := range jobs {
			plan, err := planned(job)
			if err != nil {
				return err
			}
			if folds > 0 {
				plan.Fold, plan.Holdout = examples.Fold{Number: fold, Of: folds}, 1/float64(folds)
			}
			c, err := t.train(ctx, plan)
			if err != nil {
				return err
			}
			if err := with(i, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// planner returns the plan of a job's run.
type planner func(job topics.Job) (*schemas.Plan, error)

// ingestedPlans returns the planner of a search over ingested files.
func ingestedPlans(ctx context.Context, p *topics.Pipeline, by dispatch.Process, files *source.Ingested) planner {
	var first *schemas.Plan
	return func(job topics.Job) (*schemas.Plan, error) {
		l, err := p.ReadLedger(ctx)
		if err != nil {
			return nil, err
		}
		job.Examples = files.Reading(job.Examples)
		plan, err := dispatch.Plan(ctx, p, job, by.Arithmetic, files.Seals, l, files.Retention)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = plan
		}
		plan.Spans, plan.Sources, plan.Removed = first.Spans, first.Sources, first.Removed // ignoring later messages
		plan.Expiring, plan.Outside, plan.Forgotten, plan.Heeded = first.Expiring, first.Outside, first.Forgotten, first.Heeded
		return plan, nil
	}
}

// samePlans returns the planner of a search over the rows of a full run's plan, which may belong to a chain.
func samePlans(plan *schemas.Plan) planner {
	return func(job topics.Job) (*schemas.Plan, error) {
		own := *plan
		own.Trial, own.Chain, own.Stages = plan.Open(), nil, stages.Placed(job.Stages, nil)
		own.Prepare, own.Holdout = scaled(job.Prepare, plan), job.Examples.Holdout
		return &own, nil
	}
}

// trials are runs on temporary topics beside those of the pipeline, which share data in memory: reproductions, or the runs of a search.
// The topic names start with the name of the pipeline, followed by a word for the purpose and a unique word.
type trials struct {
	pipeline *topics.Pipeline
	process  dispatch.Process
	job      topics.Job
	word     string
	recorder event.Recorder

	*dispatch.Members // nil: the topics are not created yet
	topics            []string
}

// Names returns the names of topics.
func Names(topics []kafkalog.Topic) (list []string) {
	for _, t := range topics {
		list = append(list, t.Name)
	}
	return list
}

// open creates the topics at the first call. It deletes leftover topics of killed processes, if no other process can be using them.
func (t *trials) open(ctx context.Context) error {
	if t.Members != nil {
		return nil
	}
	p, job := t.pipeline, t.job
	bytes, err := visit.CacheBytes(job.Memory)
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("%s.%s-", job.Name, t.word)
	if p.Alone {
		left, err := p.Admin.Topics(ctx, prefix)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(t kafkalog.Topic) bool { return !topics.IsBeside(job.Name, t.Name) })
		if err := p.Admin.Delete(ctx, Names(left)...); err != nil {
			return err
		}
	}
	if job.Examples.Partitions, err = p.Log.Partitions(ctx, p.Topics.Examples); err != nil {
		return err
	}
	job.Name, job.Examples.Topic = prefix+strings.ToLower(p.Fresh()[:topics.UniqueLength]), p.Topics.Examples // not created
	beside, created := p.Beside(job.Name), topics.Topics(job)
	cache, nothing := visit.NewCache(bytes), func() {}
	dispatch.CheckCache(ctx, beside, cache)
	t.topics, t.Members = Names(created), &dispatch.Members{
		Pipeline: beside, Process: t.process, Cache: cache, Recorder: t.recorder, JoinWorkers: nothing, LeaveWorkers: nothing, Leave: nothing,
		Works: protocol.NewSoleOwner(job.Examples.Partitions), Solves: protocol.NewSoleOwner(1),
	}
	return p.Admin.Create(ctx, created...)
}

// close deletes the topics, even if ctx has ended.
func (t *trials) close(ctx context.Context) error {
	if t.Members == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return t.Admin.Delete(ctx, t.topics...)
}

// run executes a plan, and returns its report and the manifest of its version. Only the newest version is kept.
func (t *trials) run(ctx context.Context, plan *schemas.Plan) (report *schemas.Report, made *schemas.Manifest, err error) {
	if err := t.open(ctx); err != nil {
		return nil, nil, err
	}
	l, err := t.ReadLedger(ctx)
	if err != nil {
		return nil, nil, err
	}
	if plan.Since, err = t.Now(ctx); err != nil {
		return nil, nil, err
	}
	plan.Since.Plans = l.Next
	if l, err = t.Submit(ctx, plan); err != nil {
		return nil, nil, err
	}
	t.recorder.Record(event.Began{Run: plan.Run(), Stages: plan.Stages, Members: plan.Members(), Chained: plan.Chain != nil})
	if report, err = t.Execute(ctx, plan, l); err == nil {
		made, err = t.Version(ctx, plan.Run())
	}
	if err != nil {
		return nil, nil, err
	}
	dispatch.Prune(ctx, t.Members.Pipeline, 1, t.recorder)
	return report, made, nil
}

// train executes a run of a search.
func (t *trials) train(ctx context.Context, plan *schemas.Plan) (*Candidate, error) {
	report, made, err := t.run(ctx, plan)
	switch {
	case err == nil:
		return &Candidate{plan, report, nil, &schemas.Warm{Run: made.Run, Manifest: made.Digest()}}, nil
	case errors.As(err, new(*dispatch.RunError)):
		return &Candidate{Plan: plan, Err: err}, nil
	}
	return nil, err
}
