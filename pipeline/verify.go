package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// Verified is a version that was made again from the log, with the same weights.
type Verified struct {
	Version int            // its number
	Run     string         // id of the run that made it
	Digest  schemas.Digest // of its weights
}

// Verify makes a version of the job's pipeline again from the log: the last full run that it goes back to, and the updates since. It compares
// the weights with those of all versions on the way that are still known, and returns these versions in order, the one that was asked for
// last. version is its number, its run, or [run.Latest]. Verify writes to topics of its own, and deletes them at the end. The error is a
// *[DigestError] if the weights of a version differ, and a *[MissingPlanError], a *[MissingExamplesError] or an *[ArithmeticError] if the
// version can't be made again.
func Verify(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, version string, rec event.Recorder) (same []Verified, err error) {
	rec = event.Serialised(rec)
	p := openFor(log, job, nil)
	runs, err := p.history(ctx, version)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if err := p.checkExamples(runs[i].plan, "the run of "+runs[i].name()); err != nil {
			return nil, err
		}
	}
	if err := p.checkHistory(ctx, runs, arithmetic(blas), rec); err != nil {
		return nil, err
	}
	again, err := p.beside(ctx, job, "verify", partition.NewStore, blas, rec)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, again.delete(ctx)) }()
	var parent *schemas.Manifest
	for i := range runs {
		r := &runs[i]
		if parent, err = again.make(ctx, r, parent); err != nil {
			return same, fmt.Errorf("make %s again: %w", r.name(), err)
		}
		if r.manifest == nil {
			continue
		}
		if parent.WeightsDigest != r.manifest.WeightsDigest {
			return same, again.differs(ctx, p, r, parent)
		}
		same = append(same, Verified{r.manifest.Version, r.manifest.Run, parent.WeightsDigest})
	}
	return same, nil
}

// earlierRun is a run that a version goes back to.
type earlierRun struct {
	plan     *schemas.Plan
	version  int               // that it has made; 0: not known
	manifest *schemas.Manifest // of that version; nil: it was removed
}

// name returns how messages to people name what a run has made.
func (r *earlierRun) name() string {
	if r.version == 0 {
		return "the version of run " + r.plan.Run()
	}
	return fmt.Sprintf("version %d", r.version)
}

// history returns the runs that a version goes back to, in order: the last that starts from nothing is the first.
func (p *pipeline) history(ctx context.Context, version string) (runs []earlierRun, err error) {
	asked, err := p.Version(ctx, version)
	if err != nil {
		return nil, err
	}
	past, err := p.past(ctx)
	if err != nil {
		return nil, err
	}
	return past.runs(asked)
}

// past is what is known of the runs of a pipeline.
type past struct {
	ledger   *run.Ledger // with all ended runs that the plans topic has
	versions []run.Finished
	topic    string // of the plans
}

// past reads what is known of the runs of the pipeline.
func (p *pipeline) past(ctx context.Context) (*past, error) {
	l, err := p.ReadHistory(ctx)
	if err != nil {
		return nil, err
	}
	versions, err := p.Versions(ctx)
	return &past{l, versions, p.Topics.Plans}, err
}

// runs returns the runs that a version goes back to, in order: the last that starts from nothing is the first. The error is a
// *[MissingPlanError].
func (h *past) runs(asked *schemas.Manifest) (runs []earlierRun, err error) {
	for id := asked.Run; ; {
		r := earlierRun{plan: h.ledger.Plan(id)}
		if end := h.ledger.End(id); end != nil && end.Version != nil {
			r.version = end.Version.Version
		}
		if i := slices.IndexFunc(h.versions, func(f run.Finished) bool { return f.Run == id }); i >= 0 {
			r.manifest = &h.versions[i].Manifest
			r.plan, r.version = r.manifest.Plan, r.manifest.Version
		}
		if r.plan == nil {
			return nil, &MissingPlanError{Version: asked.Version, Run: id, Topic: h.topic}
		}
		runs = append(runs, r)
		if r.plan.Warm == nil {
			slices.Reverse(runs)
			return runs, nil
		}
		id = r.plan.Warm.Run
	}
}

// checkHistory returns an error if runs can't be made again by this process, with what is missing.
func (p *pipeline) checkHistory(ctx context.Context, runs []earlierRun, here schemas.Arithmetic, rec event.Recorder) error {
	mixed := false
	for i := range runs {
		if there := runs[i].plan.Arithmetic; !there.Admits(here) {
			return &ArithmeticError{runs[i].name(), there, here}
		} else if there.Any {
			mixed = true
		}
	}
	if mixed {
		event.Notice(rec, "the plan lets machines of any arithmetic work on a run (arithmetic: any): if another kind of machine did, the digests differ")
	}
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return err
	}
	missing := &MissingExamplesError{Topic: p.Topics.Examples}
	for i := range runs {
		for _, needed := range reads(runs[i].plan) {
			gone := needed
			switch n := needed.Partition; {
			case n >= len(bounds), needed.To > bounds[n].To:
			case needed.From < bounds[n].From:
				gone.To = min(needed.To, bounds[n].From)
			default:
				continue
			}
			missing.add(gone, runs[i].name())
		}
	}
	if len(missing.Spans) > 0 {
		return missing
	}
	return nil
}

// reads returns the spans of the examples topic that a run reads.
func reads(plan *schemas.Plan) schemas.Spans {
	spans := slices.Clone(plan.Spans)
	if u := plan.Update(); u != nil {
		for _, list := range [][]schemas.Increment{u.Refresh, u.Leave} {
			for i := range list {
				spans = append(spans, list[i].Spans()...)
			}
		}
	}
	return spans
}

// again makes runs on topics beside those of the pipeline: earlier ones again, or those of a search.
type again struct {
	*members
	topics []string // that it has created
}

// names returns the names of topics.
func names(topics []kafkalog.Topic) (list []string) {
	for _, t := range topics {
		list = append(list, t.Name)
	}
	return list
}

// delete deletes the topics, also if ctx has ended.
func (a *again) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return a.admin.Delete(ctx, a.topics...)
}

// make makes a run again that starts from the version of parent, which was made again before it, and returns the manifest of its version.
func (a *again) make(ctx context.Context, r *earlierRun, parent *schemas.Manifest) (*schemas.Manifest, error) {
	plan := *r.plan
	if plan.Warm != nil {
		plan.Warm = &schemas.Warm{Run: parent.Run, Manifest: parent.Digest()}
	}
	if plan.Chain != nil {
		chain := *plan.Chain
		chain.Parent, chain.Gate = plan.Warm, nil // a gate changes no weights
		plan.Chain = &chain
	}
	l, err := a.submitHere(ctx, &plan)
	if err != nil {
		return nil, err
	}
	a.rec.Record(event.Began{Run: plan.Run(), Stages: plan.Stages, Members: plan.Members(), Chained: plan.Chain != nil})
	report, err := a.execute(ctx, &plan, l)
	if err != nil {
		return nil, err
	}
	if report.Retrain != nil {
		report.Retrain.Version, report.Retrain.Seconds = r.version, report.Seconds
		a.rec.Record(event.Retrained{RetrainReport: *report.Retrain, Number: plan.Chain.Number})
	}
	a.prune(ctx, 1, a.rec)
	return a.Version(ctx, plan.Run())
}

// submitHere writes a plan to the topics beside those of the pipeline, and returns a ledger that has it.
func (a *again) submitHere(ctx context.Context, plan *schemas.Plan) (*run.Ledger, error) {
	l, err := a.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	if plan.Since, err = a.Now(ctx); err != nil {
		return nil, err
	}
	plan.Since.Plans = l.Next
	messages, err := plan.Messages()
	if err != nil {
		return nil, err
	}
	if _, err := a.Log.Append(ctx, a.Topics.Plans, 0, messages...); err != nil {
		return nil, err
	}
	return a.ReadLedger(ctx)
}

// differs returns the error that a version has other weights than it has when it is made again, with the examples that differ.
func (a *again) differs(ctx context.Context, p *pipeline, r *earlierRun, made *schemas.Manifest) error {
	differs := &DigestError{Version: r.version, Want: r.manifest.WeightsDigest, Got: made.WeightsDigest, Topic: p.Topics.Examples}
	then, err := p.Survey(ctx, r.manifest.Run)
	if err != nil {
		return errors.Join(differs, err)
	}
	now, err := a.Survey(ctx, made.Run)
	if err != nil {
		return errors.Join(differs, err)
	}
	for i, covered := range then.Covered {
		if i >= len(now.Covered) || !covered.Same(now.Covered[i]) {
			differs.Changed = append(differs.Changed, covered.Spans...)
		}
	}
	return differs
}

// DigestError says that a version has other weights when it is made again.
type DigestError struct {
	Version   int            // its number
	Want, Got schemas.Digest // by its manifest, and now
	Topic     string         // of the examples
	Changed   schemas.Spans  // in which the examples are not those that it has learnt
}

// Error names both digests, and the examples that have changed.
func (e *DigestError) Error() string {
	text := fmt.Sprintf("version %d has weights with digest %s; made again, they have digest %s", e.Version, e.Want, e.Got)
	if len(e.Changed) == 0 {
		return text + ": the examples are those that it has learnt"
	}
	return fmt.Sprintf("%s: the examples on %s%s are not those that it has learnt", text, e.Topic, listed(e.Changed))
}

// listed lists spans for people.
func listed(spans schemas.Spans) string {
	var list []string
	for _, s := range spans {
		list = append(list, s.String())
	}
	return strings.Join(list, ", ")
}

// MissingPlanError says that a version can't be made again because a plan is gone.
type MissingPlanError struct {
	Version int    // that was to be made again
	Run     string // whose plan is gone
	Topic   string // of the plans
}

// Error names the plan.
func (e *MissingPlanError) Error() string {
	return fmt.Sprintf("version %d goes back to run %s, whose plan is no longer on %s: it can't be made again", e.Version, e.Run, e.Topic)
}

// MissingExamplesError says that a version can't be made again because examples are gone.
type MissingExamplesError struct {
	Topic string        // of the examples
	Spans schemas.Spans // that are gone, one of each partition
	First string        // the first version that learnt them, as "version 3"
}

// add adds a span that is gone.
func (e *MissingExamplesError) add(gone schemas.Span, by string) {
	if e.First == "" {
		e.First = by
	}
	for i := range e.Spans {
		if s := &e.Spans[i]; s.Partition == gone.Partition {
			s.From, s.To = min(s.From, gone.From), max(s.To, gone.To)
			return
		}
	}
	e.Spans = append(e.Spans, gone)
}

// Error names partitions and offsets.
func (e *MissingExamplesError) Error() string {
	return fmt.Sprintf("%s was made from examples that are gone: %s%s. The key topics.retention.examples says how long examples stay",
		e.First, e.Topic, listed(e.Spans))
}

// ArithmeticError says that this process would make a version with other bits.
type ArithmeticError struct {
	What        string             // the version, as "version 3"
	There, Here schemas.Arithmetic // that made the version, and of this process
}

// Error says what differs.
func (e *ArithmeticError) Error() string {
	return fmt.Sprintf("%s was made with another arithmetic (%s): its digest can't be expected to match. Verify it on a machine like that, with the same BLAS and release",
		e.What, differences(e.There, e.Here, "this process"))
}
