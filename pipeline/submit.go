package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// finish finishes earlier submitted runs. It reports whether there were any: the ledger is then outdated.
func (r *runner) finish(ctx context.Context, l *protocol.Ledger) (waited bool, err error) {
	if err := r.endOvertaken(ctx, l); err != nil {
		return false, err
	}
	for id, plan := range l.Unfinished() {
		if why := dispatch.Unable(r.Pipeline, plan, r.here); why != "" {
			return true, r.replace(ctx, plan, why)
		}
		event.Notice(r.rec, "run %s was submitted earlier and is not finished: waiting for it", id)
		if err := r.execute(ctx, plan, l); err != nil {
			return false, err
		}
		waited = true
	}
	return waited, nil
}

// replace cancels a run that this process can't execute, so that the chain makes it again. A run of `train`, which it does
// not make, is left to other processes, except on the embedded broker, which has none.
func (r *runner) replace(ctx context.Context, plan *schemas.Plan, why string) error {
	if plan.Chain != nil || r.Admin.Embedded() {
		return r.cancel(ctx, schemas.End{Run: plan.Run(), State: schemas.Cancelled, Reason: why})
	}
	event.Notice(r.rec, "run %s was submitted earlier and is not finished: waiting for other processes to finish it: %s", plan.Run(), why)
	return dispatch.EndedOrGivenUp(ctx, r.Pipeline, plan, r.rec)
}

// cancel writes the end of a cancelled run.
func (r *runner) cancel(ctx context.Context, end schemas.End) error {
	end.Attempt = r.Fresh()
	if err := dispatch.End(ctx, r.Pipeline, &end); err != nil {
		return fmt.Errorf("cancel run %s: %w", end.Run, err)
	}
	event.Notice(r.rec, "run %s is cancelled: %s", end.Run, end.Reason)
	return nil
}

// endOvertaken writes the ends of overtaken runs of the chain.
func (r *runner) endOvertaken(ctx context.Context, l *protocol.Ledger) error {
	for _, overtaken := range l.Overtaken() {
		if err := r.cancel(ctx, *overtaken); err != nil {
			return err
		}
	}
	return nil
}

// submit submits a run and executes it until it has ended, unless another runner was faster.
func (r *runner) submit(ctx context.Context, plan *schemas.Plan) error {
	if err := r.check(plan); err != nil {
		return err
	}
	if err := topics.GrowFor(ctx, r.Pipeline, plan, &r.job); err != nil {
		return err
	}
	messages, err := plan.Messages()
	if err != nil {
		return fmt.Errorf("plan version %d of the chain: %w", plan.Chain.Number, err)
	}
	r.made = plan.Run()
	if _, err := r.Log.Append(ctx, r.Topics.Plans, 0, messages...); err != nil {
		return err
	}
	l, err := r.ReadLedger(ctx)
	if err != nil {
		return err
	}
	if err := r.endOvertaken(ctx, l); err != nil {
		return err
	}
	submitted := l.Plan(plan.Run())
	switch {
	case submitted == nil: // an unclean leader election has lost it, or it is damaged on the topic
		event.Notice(r.rec, "the plan of run %s was written, but %s does not have it: planning the run again", plan.Run(), r.Topics.Plans)
		return r.pause(ctx, firstPause)
	case l.End(plan.Run()) != nil:
		return nil // other processes are active, or have executed the run: the topics determine what is next
	}
	return r.execute(ctx, submitted, l)
}

// check increases the segment length of a plan with too many segments, and returns an error for any other plan that
// processes would reject. Such a plan would be ignored, so the chain would write it again and again.
func (r *runner) check(plan *schemas.Plan) error {
	configured := plan.Segment
	for {
		err := protocol.CheckPlan(plan)
		if errors.As(err, new(*schemas.SegmentsError)) && plan.Segment <= math.MaxInt64/2 {
			plan.Segment *= 2
			continue
		}
		if err != nil {
			return fmt.Errorf("plan version %d of the chain: %w", plan.Chain.Number, err)
		}
		if plan.Segment > configured {
			event.Notice(r.rec, "version %d has segments of %d messages: with `segment: %d` they would be more than %d", plan.Chain.Number,
				plan.Segment, configured, schemas.MaxSegments)
		}
		return nil
	}
}

// execute executes a run until it has ended. A failed run of the chain is not an error: the next attempt is a full run.
func (r *runner) execute(ctx context.Context, plan *schemas.Plan, l *protocol.Ledger) error {
	r.rec.Record(event.Began{Run: plan.Run(), Stages: plan.Stages, Members: plan.Members(), Chained: plan.Chain != nil})
	report, err := r.work(ctx, plan, l)
	if failed, ok := errors.AsType[*dispatch.RunError](err); ok && plan.Chain != nil && r.failures < maxFailures {
		event.Notice(r.rec, "%v", failed)
		r.proven = false // which may be the cause of the failure
		r.failures++
		return r.pause(ctx, firstPause<<(r.failures-1))
	}
	if plan.Chain != nil && errors.As(err, new(*dispatch.ReportGoneError)) { // this process was slow, and others have made newer versions
		event.Notice(r.rec, "%v", err)
		r.failures = 0
		return nil
	}
	if err != nil {
		return err
	}
	r.failures = 0
	dispatch.Prune(ctx, r.Pipeline, r.job.Keep, r.rec)
	if plan.Chain != nil {
		report.Retrain.Seconds = report.Seconds
		r.report.add(report)
		r.rec.Record(event.Retrained{RetrainReport: *report.Retrain, Number: plan.Chain.Number})
	}
	return nil
}

// maxFailures is the number of failed runs, without a version in between, after which the chain ends.
const maxFailures = 3

// firstPause is the pause after a failed run. It doubles with each further failure.
const firstPause = time.Second
