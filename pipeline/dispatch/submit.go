package dispatch

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// submission is a run on the plans topic.
type submission struct {
	Plan   *schemas.Plan
	First  []*schemas.Plan  // earlier unfinished runs
	Known  bool             // the run was already on the topic
	Ledger *protocol.Ledger // read after the submission: has the plan
}

// SubmitJob submits a run of a job with ingested files.
func SubmitJob(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, job topics.Job, files *source.Ingested, o TrainOptions,
	rec event.Recorder) (*submission, error) {
	s := &submission{}
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	l.Report(rec)
	if p.Admin.Embedded() && !l.AnyUnfinished() {
		// The messages of these topics are only needed for unfinished runs. The embedded broker cleans its log periodically by whole
		// files, and each run leaves a Gram matrix for each stage and partition.
		err := p.Admin.Delete(ctx, p.Topics.Statistics, p.Topics.Residuals, p.Topics.Weights)
		if err == nil {
			err = topics.Create(ctx, p, &job)
		}
		if err != nil {
			return nil, err
		}
	}
	job.Examples = files.Reading(job.Examples)
	if versions := l.Versions(); job.Warm == protocol.Latest && len(versions) > 0 { // even if it is withheld, or another one is pinned
		job.Warm = versions[len(versions)-1].Run
	}
	plan, err := Plan(ctx, p, job, Arithmetic(blas), files.Seals, l, files.Retention)
	if err != nil {
		return nil, err
	}
	if err := topics.GrowFor(ctx, p, plan, &job); err != nil {
		return nil, err
	}
	plan.Trigger = o.Trigger
	s.Plan, s.Ledger, err = Enqueue(ctx, p, plan, l, o.Supersede || p.Admin.Embedded(), rec)
	if err != nil {
		return nil, err
	}
	s.Known = s.Plan.Submission != plan.Submission
	for id, other := range s.Ledger.Unfinished() {
		if id == s.Plan.Run() {
			break
		}
		s.First = append(s.First, other)
	}
	return s, nil
}

// Enqueue writes the plan to the plans topic. If there is an unfinished run with the same content, that run is resumed
// instead. It returns the run's plan, and a ledger that has it.
func Enqueue(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan, l *protocol.Ledger, supersede bool,
	rec event.Recorder) (*schemas.Plan, *protocol.Ledger, error) {
	content, resumed := plan.Content(), false
	for _, other := range l.Unfinished() {
		if other.Content() == content {
			plan, resumed = other, true
			break
		}
	}
	id := plan.Run()
	if supersede || plan.Trigger {
		if err := cancelOthers(ctx, p, id, supersede, rec); err != nil {
			return nil, nil, err
		}
	}
	if !resumed {
		messages, err := plan.Messages()
		if err != nil {
			return nil, nil, fmt.Errorf("submit run %s: %w", id, err)
		}
		if _, err := p.Log.Append(ctx, p.Topics.Plans, 0, messages...); err != nil {
			return nil, nil, fmt.Errorf("submit run %s: %w", id, err)
		}
	}
	l, err := p.ReadLedger(ctx) // other processes may have submitted runs since
	if err != nil {
		return nil, nil, err
	}
	if submitted := l.Plan(id); submitted != nil { // it may have ended
		return submitted, l, nil
	}
	return nil, nil, &RunError{Run: id, State: "ended", Reason: "other processes have finished or cancelled it, and many runs " +
		"after it; run the same command again to begin the next run"}
}

// cancelOthers cancels the other unfinished runs: all of them, or the waiting runs of triggers.
func cancelOthers(ctx context.Context, p *topics.Pipeline, id string, all bool, rec event.Recorder) error {
	l, err := p.ReadLedger(ctx) // runs may have ended while the plan was made
	if err != nil {
		return err
	}
	waits := false // the first run may have started
	for earlier, plan := range l.Unfinished() {
		if earlier == id || !all && !(waits && plan.Trigger) {
			waits = true
			continue
		}
		waits = true
		end := &schemas.End{Run: earlier, State: schemas.Cancelled, Reason: "superseded by run " + id, Attempt: p.Fresh()}
		if err := End(ctx, p, end); err != nil {
			return fmt.Errorf("cancel run %s: %w", earlier, err)
		}
		event.Notice(rec, "unfinished run %s is cancelled: run %s replaces it", earlier, id)
	}
	return nil
}

// End ends a run for a process that is not its solver.
func End(ctx context.Context, p *topics.Pipeline, end *schemas.End) (err error) {
	if end.Since, err = p.Now(ctx); err == nil {
		_, err = p.Log.Append(ctx, p.Topics.Plans, 0, end.Message())
	}
	return err
}
