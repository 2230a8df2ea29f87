package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// Submit ingests the job's files, submits a run of the job and returns the run's id. Workers and solvers in other processes
// carry out the run.
func Submit(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, o TrainOptions, rec event.Recorder) (id string, err error) {
	rec = event.Serialised(rec)
	p := openFor(log, job, o.Allocator)
	if err := p.create(ctx, &job); err != nil {
		return "", err
	}
	ingested, err := p.ingestFiles(ctx, job, rec)
	if err != nil {
		return "", err
	}
	s, err := p.submitJob(ctx, blas, job, ingested, o, rec)
	if err != nil {
		return "", err
	}
	for _, earlier := range s.first {
		text := fmt.Sprintf("run %s was submitted earlier and is not finished: it goes first", earlier.Run())
		if here := arithmetic(blas); !earlier.Arithmetic.Admits(here) {
			text += fmt.Sprintf(". It has another arithmetic (%s); cancel it with --supersede",
				differences(earlier.Arithmetic, here, "this process"))
		}
		rec.Record(event.Noticed{Text: text})
	}
	return s.plan.Run(), nil
}

// submission is a run that is on the plans topic.
type submission struct {
	plan   *schemas.Plan
	first  []*schemas.Plan // unfinished runs that go first
	known  bool            // the run was on the topic before
	ledger *run.Ledger     // has the plan; the run's end comes after it
}

// ingested is what a job's files are on the examples topic.
type ingested struct {
	seals      []schemas.SourceSeal
	vocabulary []string  // of their texts, if it is counted
	retention  retention // of the examples topic
	took       time.Duration
}

// ingestFiles ingests the job's files.
func (p *pipeline) ingestFiles(ctx context.Context, job Job, rec event.Recorder) (*ingested, error) {
	began := time.Now()
	r, err := p.checkRetention(ctx, rec)
	if err != nil {
		return nil, err
	}
	files, err := p.ingest(ctx, job, r, rec)
	if err != nil {
		return nil, err
	}
	files.took = time.Since(began)
	return files, nil
}

// submitJob submits a run of a job whose files are ingested.
func (p *pipeline) submitJob(ctx context.Context, blas *kernel.BLAS, job Job, files *ingested, o TrainOptions, rec event.Recorder) (*submission, error) {
	s := &submission{}
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	l.Report(rec)
	if p.admin.Embedded() && !anyUnfinished(l) {
		if err := p.clear(ctx, job); err != nil {
			return nil, err
		}
	}
	job.Examples = job.Examples.WithVocabulary(files.vocabulary)
	if job.Warm == run.Latest {
		job.Warm = newest(l)
	}
	plan, err := p.plan(ctx, job, blas, files.seals, l, files.retention)
	if err != nil {
		return nil, err
	}
	if err := p.growFor(ctx, plan, &job); err != nil {
		return nil, err
	}
	plan.Trigger = o.Trigger
	s.plan, s.ledger, err = p.submit(ctx, plan, l, o.Supersede || p.admin.Embedded(), rec)
	if err != nil {
		return nil, err
	}
	s.known = s.plan.Submission != plan.Submission
	for id, other := range s.ledger.Unfinished() {
		if id == s.plan.Run() {
			break
		}
		s.first = append(s.first, other)
	}
	return s, nil
}

// anyUnfinished reports whether a run has not ended.
func anyUnfinished(l *run.Ledger) bool {
	for range l.Unfinished() {
		return true
	}
	return false
}

// submit writes the plan to the plans topic, unless there is an unfinished run of the same content: that run is resumed. It returns
// the run's plan, and a ledger that has it.
func (p *pipeline) submit(ctx context.Context, plan *schemas.Plan, l *run.Ledger, supersede bool, rec event.Recorder) (*schemas.Plan, *run.Ledger, error) {
	content, resumed := plan.Content(), false
	for _, other := range l.Unfinished() {
		if other.Content() == content {
			plan, resumed = other, true
			break
		}
	}
	id := plan.Run()
	if supersede || plan.Trigger {
		if err := p.cancelOthers(ctx, id, supersede, rec); err != nil {
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
	l, err := p.ReadLedger(ctx) // other processes may have submitted runs since l was read
	if err != nil {
		return nil, nil, err
	}
	if submitted := l.Plan(id); submitted != nil { // it may have ended already
		return submitted, l, nil
	}
	return nil, nil, &RunError{Run: id, State: "ended", Reason: "other processes have finished or cancelled it, and many runs after it; run the same command again to begin the next run"}
}

// cancelOthers cancels the unfinished runs other than this one: all of them, or those of triggers that wait for other runs.
func (p *pipeline) cancelOthers(ctx context.Context, id string, all bool, rec event.Recorder) error {
	l, err := p.ReadLedger(ctx) // runs may have ended while the plan was made
	if err != nil {
		return err
	}
	waits := false // the first run may have begun
	for earlier, plan := range l.Unfinished() {
		if earlier == id || !all && !(waits && plan.Trigger) {
			waits = true
			continue
		}
		waits = true
		end := &schemas.End{Run: earlier, State: schemas.Cancelled, Reason: "superseded by run " + id, Attempt: p.Fresh()}
		if err := p.end(ctx, end); err != nil {
			return fmt.Errorf("cancel run %s: %w", earlier, err)
		}
		event.Notice(rec, "unfinished run %s is cancelled: run %s replaces it", earlier, id)
	}
	return nil
}

// end ends a run that this process does not solve.
func (p *pipeline) end(ctx context.Context, end *schemas.End) (err error) {
	if end.Since, err = p.Now(ctx); err == nil {
		_, err = p.Log.Append(ctx, p.Topics.Plans, 0, end.Message())
	}
	return err
}
