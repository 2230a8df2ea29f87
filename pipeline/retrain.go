package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/choice"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/pipeline/protocol/ownership"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// Retrain retrains continuously as examples arrive, or with untilEnd until all current examples of the topic are learnt. It ingests the
// job's files first, and the topic that the job's examples come from meanwhile. Of several processes that retrain one
// pipeline, one is active and the others stand by.
func Retrain(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job topics.Job, untilEnd bool,
	rec event.Recorder) (*Retraining, error) {
	if job.Examples.Augment != (ingest.Augment{}) {
		return nil, errors.New("examples.augment: `run` does not support augmentation: remove the key, or use `train`")
	}
	if job.Average > 1 {
		return nil, errors.New("average: `run` does not support averaging: remove the key, or use `train`")
	}
	job.Stages = model.Chained(job.Stages)
	rec = event.Serialised(rec)
	p := topics.OpenForRuns(log, job, nil)
	if err := source.CheckSource(ctx, p, job); err != nil {
		return nil, err
	}
	if err := topics.Create(ctx, p, &job); err != nil {
		return nil, err
	}
	if err := checkWords(ctx, p, job); err != nil {
		return nil, err
	}
	files, err := source.IngestFiles(ctx, p, job, rec)
	if err != nil {
		return nil, err
	}
	bytes, err := partition.Bytes(job.Memory)
	if err != nil {
		return nil, err
	}
	store := partition.NewStore(bytes)
	join := func(ctx context.Context) (execution, func(), error) {
		members, err := dispatch.Join(ctx, p, job, store, blas, rec)
		if err != nil {
			return nil, nil, err
		}
		return members.Execute, members.Leave, nil
	}
	var owner ownership.Owner = ownership.NewSoleOwner(1)
	if !log.Embedded() {
		group := log.Join(p.Topics.Runners(), p.Topics.Plans)
		defer func() {
			if err := group.Leave(); err != nil {
				event.Notice(rec, "leave the group of runners: %v", err)
			}
		}()
		owner = group
	}
	began := p.Clock.Now()
	r := newRunner(p, job, owner, planning.Arithmetic(blas), join, rec)
	r.retention = files.Retention
	if choice.Needed(job) {
		r.choose = func(ctx context.Context, plan *schemas.Plan, rows int64) (topics.Job, error) {
			return choice.ResolvePlanned(ctx, p, dispatch.NewProcess(blas), job, plan, rows, rec)
		}
	}
	if err := r.run(ctx, untilEnd); err != nil {
		return r.report, err
	}
	r.report.Seconds = p.Clock.Since(began).Seconds()
	if r.report.Seconds > 0 {
		r.report.RowsPerSecond = float64(r.report.Rows) / r.report.Seconds
	}
	return r.report, nil
}

// checkWords returns an error if the chain has rows whose words are in other columns than those of the job, before any are ingested.
func checkWords(ctx context.Context, p *topics.Pipeline, job topics.Job) error {
	m, err := p.Version(ctx, protocol.Latest)
	switch {
	case errors.As(err, new(*protocol.NoVersionError)) || protocol.IsIncomplete(err):
		return nil
	case err != nil || m.Plan.Chain == nil:
		return err
	}
	if err := planning.CheckWords(planning.InputOf(job.Examples), m.Plan.Input); err != nil {
		return fmt.Errorf("version %d of the chain has learnt rows with %w: set these keys as they were, or give the pipeline another "+
			"name", m.Version, err)
	}
	return nil
}

// execution works on a run until it has ended, or follows those who do, and returns its report. The ledger has the run's plan.
type execution func(context.Context, *schemas.Plan, *protocol.Ledger) (*schemas.Report, error)

// runner submits the runs of a chain, and follows them to their ends.
type runner struct {
	*topics.Pipeline
	job       topics.Job
	owner     ownership.Owner    // of the plans topic among the runners: who owns it submits
	here      schemas.Arithmetic // of this process
	join      func(context.Context) (work execution, leave func(), err error)
	work      execution                                                       // while this process is the active one
	choose    func(context.Context, *schemas.Plan, int64) (topics.Job, error) // stages by the rows of the first plan; nil: those of the job
	rec       event.Recorder
	retention topics.ExamplesRetention
	backlog   backlog
	forgotten *heed.Forgotten
	learnt    []schemas.Place // versions that have learnt from what is forgotten
	report    *Retraining

	head     *schemas.Manifest        // of the newest version of the chain; nil: there is none
	stored   *protocol.StoredWindow   // after it; nil: it is gone
	window   *schemas.Window          // the same, as far as the log still holds it; nil: nothing is left
	oldest   []int64                  // by partition: the first offset that the window has
	counted  []schemas.SourceProgress // how far the chain had counted sources when it began again; see beginAgain
	renews   bool                     // the window is not what the head has learnt: the next run must be full
	proven   bool                     // that the examples topic holds what the chain has looked at
	had      int64                    // rows of the window, before some were found to be gone
	least    int64                    // see schemas.Chain.AtLeast
	earlier  []earlier                // the newest versions before it, the newest first
	refused  bool                     // that what they have left is removed
	passed   map[int]bool             // versions that are incomplete
	number   int                      // in the chain, of the next run
	attempt  int                      // how many runs of that number have failed
	failures int                      // since the last version
	made     string                   // the run that this process has submitted last
	waits    bool                     // for a second class, and has said so
	only     distinct                 // the class that is left in the window without what is forgotten; empty: more, or not known

	windowBytes int64                                      // see schemas.WindowBytes
	pause       func(context.Context, time.Duration) error // after a run has failed, so that what makes runs fail has time to pass
}

// newRunner returns the runner of a job's chain. Once this process is the active one of its group, it joins those who work on runs: the
// partitions of one that stands by would wait.
func newRunner(p *topics.Pipeline, job topics.Job, owner ownership.Owner, here schemas.Arithmetic,
	join func(context.Context) (execution, func(), error), rec event.Recorder) *runner {
	forgotten := heed.NewForgotten()
	return &runner{Pipeline: p, job: job, owner: owner, here: here, join: join, rec: rec,
		backlog: backlog{Pipeline: p, labels: firstLabels(job), forgotten: forgotten}, forgotten: forgotten,
		report: &Retraining{Name: job.Name},
		passed: map[int]bool{}, windowBytes: schemas.WindowBytes, pause: func(ctx context.Context,
			wait time.Duration) error {
			return topics.PauseFor(ctx, p, wait)
		}}
}

// run makes one version after the other, while this process is the active one of its group.
func (r *runner) run(ctx context.Context, untilEnd bool) error {
	for {
		if err := r.standBy(ctx); err != nil {
			return err
		}
		work, leave, err := r.join(ctx)
		if err != nil {
			return err
		}
		r.work = work
		err = r.ingestAndGoOn(ctx, untilEnd)
		leave()
		if !errors.Is(err, errNotActive) {
			return err
		}
		r.rec.Record(event.Behind{}) // what is left is for the other process to say
	}
}

// ingestAndGoOn makes one version after the other, and ingests the job's topic beside that. With untilEnd the end of
// that topic comes first.
func (r *runner) ingestAndGoOn(ctx context.Context, untilEnd bool) error {
	switch {
	case r.job.Examples.FromTopic == "":
		return r.goOn(ctx, untilEnd)
	case untilEnd:
		if err := source.FollowTopic(ctx, r.Pipeline, r.job, true, r.rec); err != nil {
			return err
		}
		return r.goOn(ctx, true)
	}
	group, ctx := errgroup.WithContext(ctx)
	ingesting, stop := context.WithCancel(ctx)
	group.Go(func() error {
		return dispatch.UnlessStopped(ingesting, source.FollowInTurn(ingesting, r.Pipeline, r.job, r.rec))
	})
	group.Go(func() error {
		defer stop()
		return r.goOn(ctx, false)
	})
	return group.Wait()
}

// goOn makes one version after the other. The error is errNotActive if another process goes on.
func (r *runner) goOn(ctx context.Context, untilEnd bool) error {
	for {
		if err := r.checkActive(); err != nil {
			return err
		}
		l, err := r.ReadLedger(ctx)
		if err != nil {
			return err
		}
		waited, err := r.finish(ctx, l)
		if err != nil {
			return err
		}
		if waited {
			continue
		}
		if again, err := r.announce(ctx, l); err != nil {
			return err
		} else if again {
			continue
		}
		if err := r.findHead(ctx, l); err != nil {
			return err
		}
		if err := r.forget(ctx, l); err != nil {
			return err
		}
		plan, err := r.next(ctx, untilEnd)
		if err != nil || plan == nil {
			return err
		}
		if err := r.checkActive(); err != nil {
			return err
		}
		plan.Since.Plans = l.Next
		if err := r.submit(ctx, plan); err != nil {
			return err
		}
	}
}

// errNotActive says that another process retrains the pipeline now.
var errNotActive = errors.New("another process retrains this pipeline")

// checkActive returns errNotActive unless this process is the active one of its group.
func (r *runner) checkActive() error {
	active, err := ownership.Owns(r.owner, 0)
	if err == nil && !active {
		err = errNotActive
	}
	return err
}

// standBy waits until this process is the active one of its group.
func (r *runner) standBy(ctx context.Context) error {
	return topics.AwaitTurn(ctx, r.Pipeline, r.owner, errNotActive, r.rec)
}

// finish finishes the runs that were submitted before. It reports whether there were any: the ledger is then old.
func (r *runner) finish(ctx context.Context, l *protocol.Ledger) (waited bool, err error) {
	if err := r.endOvertaken(ctx, l); err != nil {
		return false, err
	}
	for id, plan := range l.Unfinished() {
		event.Notice(r.rec, "run %s was submitted earlier and is not finished: it goes first", id)
		if err := r.execute(ctx, plan, l); err != nil {
			return false, err
		}
		waited = true
	}
	return waited, nil
}

// endOvertaken writes the ends of runs of the chain that others have overtaken.
func (r *runner) endOvertaken(ctx context.Context, l *protocol.Ledger) error {
	for _, overtaken := range l.Overtaken() {
		end := *overtaken
		end.Attempt = r.Fresh()
		if err := dispatch.End(ctx, r.Pipeline, &end); err != nil {
			return fmt.Errorf("cancel run %s: %w", end.Run, err)
		}
		event.Notice(r.rec, "run %s is cancelled: %s", end.Run, end.Reason)
	}
	return nil
}

// submit submits a run and works on it until it has ended, unless another runner was faster.
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
	case submitted == nil: // an unclean election has lost it, or it came to the topic damaged
		event.Notice(r.rec, "the plan of run %s was written, but %s does not have it: planning the run again", plan.Run(), r.Topics.Plans)
		return r.pause(ctx, firstPause)
	case l.End(plan.Run()) != nil:
		return nil // others have the turn, or have made the run meanwhile: what is next is on the topics
	}
	return r.execute(ctx, submitted, l)
}

// check makes the segments of a plan longer if they are too many, and returns an error for any other plan that no
// process would work on. Nobody reads such a plan, so the chain would write it again and again.
func (r *runner) check(plan *schemas.Plan) error {
	configured := plan.Segment
	for {
		err := codec.CheckPlan(plan)
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

// execute works on a run until it has ended. That a run of the chain has failed is no error: the next attempt is a full run.
func (r *runner) execute(ctx context.Context, plan *schemas.Plan, l *protocol.Ledger) error {
	r.rec.Record(event.Began{Run: plan.Run(), Stages: plan.Stages, Members: plan.Members(), Chained: plan.Chain != nil})
	report, err := r.work(ctx, plan, l)
	if failed, ok := errors.AsType[*dispatch.RunError](err); ok && plan.Chain != nil && r.failures < maxFailures {
		event.Notice(r.rec, "%v", failed)
		r.proven = false // it may have failed because of that
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

// maxFailures is how many runs may fail, without a version between them, before the chain ends.
const maxFailures = 3

// firstPause is how long the chain waits after a run has failed. Each failure after it doubles that.
const firstPause = time.Second

// findHead finds the newest version of the chain, what its run has left, and how many runs that go on from it have
// failed. All of that is of one ledger, in which no run is unfinished.
func (r *runner) findHead(ctx context.Context, l *protocol.Ledger) error {
	head, err := r.newestOfChain(ctx, l)
	if err != nil {
		return err
	}
	r.number, r.attempt = 1, 0
	if head != nil {
		if err := topics.CheckExamples(r.Pipeline, head.Plan, fmt.Sprintf("version %d", head.Version)); err != nil {
			return err
		}
		r.number = head.Plan.Chain.Number + 1
	}
	if last := l.Chained(); last != nil && last.Number >= r.number {
		r.number, r.attempt = last.Number, last.Attempt+1
	}
	switch {
	case head == nil:
		r.looksForClasses()
		removed := r.head != nil
		r.head, r.stored, r.window, r.oldest, r.counted, r.earlier = nil, nil, nil, nil, nil, nil
		r.renews, r.had, r.least = false, 0, 0
		if r.backlog.ends == nil || removed {
			bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
			if err != nil {
				return err
			}
			var begins []int64
			for _, span := range bounds {
				begins = append(begins, span.From)
			}
			r.backlog.begin(begins, slices.Clone(begins), nil)
		}
		return nil
	case r.head != nil && r.head.Run == head.Run:
		return nil
	}
	follows := head.Run == r.made && len(r.backlog.ends) > 0
	known := r.stored
	if parent := head.Plan.Chain.Parent; r.head != nil && parent != nil && parent.Run == r.head.Run {
		r.earlier = append([]earlier{{r.head.Plan, known}}, r.earlier...)
	} else {
		r.earlier = nil
	}
	r.looksForClasses()
	r.head, r.window, r.counted, r.renews, r.had, r.least = head, nil, nil, false, 0, 0
	if r.choose != nil {
		r.job.Stages = head.Plan.Stages
	}
	if r.stored, err = r.readWindow(ctx, *head, known); err != nil {
		return err
	}
	if r.stored != nil {
		r.window = r.stored.Window
	} else if r.window, err = r.windowOfPlans(ctx); err != nil {
		return err
	}
	r.oldest = oldestOf(r.window)
	r.least = r.window.AtLeast
	if r.renews {
		if r.least, err = r.offeredRows(ctx, l); err != nil {
			return err
		}
	}
	r.release(ctx)
	if follows {
		r.backlog.take(head.Plan)
		return nil
	}
	r.proven = false
	r.backlog.begin(slices.Clone(head.Plan.Chain.Begins), slices.Clone(r.window.Ends), head.Plan.Chain.Marks)
	return nil
}

// readWindow reads the window after a version, given the one before it; nil if it is not on the state topic, or damaged.
func (r *runner) readWindow(ctx context.Context, head schemas.Manifest, known *protocol.StoredWindow) (*protocol.StoredWindow, error) {
	if head.Window == nil {
		return nil, nil
	}
	w, err := protocol.ReadWindow(ctx, r.Client, *head.Window, known)
	if errors.Is(err, wire.ErrDamaged) {
		return nil, nil
	}
	return w, err
}

// newestOfChain returns the manifest of the newest version of a chain that is whole; nil if there is none.
func (r *runner) newestOfChain(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	newest := r.Newest()
	for _, place := range slices.Backward(l.Versions()) {
		if newest != nil && newest.Manifest.Run == place.Run && newest.Manifest.Plan.Chain != nil {
			return newest.Manifest, nil
		}
		if r.head != nil && r.head.Run == place.Run {
			return r.head, nil
		}
		m, _, err := r.ModelAt(ctx, place, nil)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Manifest.Plan.Chain != nil {
			r.Remember(m) // an update of this process needs it
			return m.Manifest, nil
		}
	}
	return nil, nil
}

// passOver notices, once, that a version is incomplete.
func (r *runner) passOver(place schemas.Place, why error) {
	if !r.passed[place.Version] {
		r.passed[place.Version] = true
		r.rec.Record(event.Incomplete{Version: place.Version, Why: why})
	}
}

// offered returns the manifest of the newest version that is offered and there; nil if there is none.
func (r *runner) offered(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	for _, place := range slices.Backward(l.Versions()) {
		if place.Withheld {
			continue
		}
		if r.head != nil && place.Run == r.head.Run {
			return r.head, nil
		}
		m, err := r.Version(ctx, place.Run)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		return m, err
	}
	return nil, nil
}

// offeredRows returns how many rows the window had of the version that subscribers have; 0 if that is not known.
func (r *runner) offeredRows(ctx context.Context, l *protocol.Ledger) (int64, error) {
	m, err := r.offered(ctx, l)
	if err != nil || m == nil {
		return 0, err
	}
	return m.WindowRows, nil
}

// next waits until the next run is due, and returns its plan; nil if untilEnd is set and the topic has no more.
func (r *runner) next(ctx context.Context, untilEnd bool) (*schemas.Plan, error) {
	if r.window != nil && r.job.Retrain.OnNewClass == topics.NewClassStop && len(r.newClasses()) > 0 {
		return nil, &NewClassError{r.newClasses()}
	}
	var first time.Time
	for {
		l, err := r.ReadLedger(ctx)
		if err != nil {
			return nil, err
		}
		bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
		if err != nil {
			return nil, err
		}
		sealed, err := topics.SealedBy(ctx, r.Pipeline, l)
		if err != nil {
			return nil, err
		}
		if !r.proven || r.shrunk(bounds) {
			if err := r.prove(ctx, l, bounds); err != nil {
				return nil, err
			}
			r.backlog.shrink(bounds)
			r.proven = true
		}
		r.backlog.refresh(bounds)
		if err := r.keepWhatIsHeld(ctx, bounds); err != nil {
			return nil, err
		}
		sources := r.sources(sealed, bounds)
		if r.window != nil && !r.renews && r.window.Rows() == 0 && r.hasLearnt(r.head.Run) {
			r.beginAgain() // there is nothing to fit anew
		}
		if r.window == nil && len(r.only) > 0 {
			r.looksForClasses()
		}
		due := r.window != nil && !r.restarts() && r.fullIsDue()
		waits, err := r.waitsToForget(ctx, bounds)
		if err != nil {
			return nil, err
		}
		if len(r.only) == 0 && (due || r.window != nil && !r.restarts() && r.hasLearnt(r.head.Run) && !waits) {
			if plan, err := r.fullPlan(ctx, l, sealed, sources); err != nil || plan != nil {
				return plan, err
			}
			waits = false
		}
		if !r.backlog.knows(sources) {
			r.backlog.restart(findLate(sources, r.progress(), bounds, r.backlog.ends))
		}
		spans, found, whole, err := r.backlog.cut(ctx, r.job.Retrain.Rows, r.findsClasses(), r.only)
		if errors.As(err, new(*kafkalog.DeletedError)) { // since the bounds were read
			r.backlog.restart(lateSources{})
			continue
		}
		if err != nil {
			return nil, err
		}
		r.rec.Record(r.backlog.behind())
		late := !first.IsZero() && r.job.Retrain.After > 0 && r.Clock.Since(first) >= r.job.Retrain.After
		switch {
		case len(spans) > 0 && r.window == nil && !r.backlog.anyCounts(spans): // the first run needs an example
		case (found > 0 || r.window != nil) && r.findsClasses() && !r.backlog.tellApart(r.backlog.classesOf(spans, r.only)):
			if err := r.waitForClasses(spans, found, untilEnd); err != nil {
				return nil, err
			}
		case len(spans) > 0 && (whole || untilEnd || late):
			if r.window == nil {
				return r.firstPlan(ctx, l, sealed, sources, spans, found)
			}
			return r.updatePlan(ctx, l, sealed, sources, spans, found)
		}
		if waits && untilEnd {
			plan, err := r.fullPlan(ctx, l, sealed, sources)
			if err == nil && len(r.only) > 0 {
				err = r.waitForClasses(nil, 0, true)
			}
			return plan, err
		}
		if untilEnd {
			return nil, nil
		}
		if (len(spans) > 0 || waits) && first.IsZero() {
			first = r.Clock.Now()
		}
		if waits && (r.job.Retrain.After == 0 || r.Clock.Since(first) >= r.job.Retrain.After) { // no update has come
			if plan, err := r.fullPlan(ctx, l, sealed, sources); err != nil || plan != nil {
				return plan, err
			}
		}
		if err := r.await(ctx, l, sealed, first); err != nil {
			return nil, err
		}
		if err := r.checkActive(); err != nil {
			return nil, err
		}
		if err := r.readForgotten(ctx); err != nil {
			return nil, err
		}
	}
}

// beginAgain has the chain begin again with what comes next: nothing is left of its window that a version could be
// fitted to. The head stays until then, and what the chain has counted counts as before.
func (r *runner) beginAgain() { r.counted, r.window = r.window.Progress, nil }

// await waits for more examples, for what comes on the plans topic after a ledger, for the seal of a source, or for rows to forget; but not
// longer than an update may be late.
func (r *runner) await(ctx context.Context, l, sealed *protocol.Ledger, first time.Time) error {
	positions := heed.SaidAfter(r.Pipeline, sealed, r.forgotten)
	if sealed != l {
		positions = append(positions, protocol.Position{Topic: r.Topics.Plans, Offset: l.Next, Compacted: true})
	}
	for n, to := range r.backlog.bounds {
		positions = append(positions, protocol.Position{Topic: r.Topics.Examples, Partition: n, Offset: to, Compacted: true})
	}
	subscription := r.Log.Subscribe(ctx, r.owner.Changed(), positions...)
	defer subscription.Close()
	timeout := protocol.MaxPatience
	if !first.IsZero() && r.job.Retrain.After > 0 {
		timeout = min(timeout, max(r.Clock.Until(first.Add(r.job.Retrain.After)), 0))
	}
	_, _, err := subscription.Next(ctx, timeout)
	if errors.As(err, new(*kafkalog.DeletedError)) { // the next look at the bounds says what is there
		return nil
	}
	return err
}

// shrunk reports whether the examples topic has less than the chain has looked at or counted.
func (r *runner) shrunk(bounds []coverage.Span) bool {
	for n, read := range r.backlog.read {
		if n >= len(bounds) || bounds[n].To < max(read, r.backlog.end(n)) {
			return true
		}
	}
	return false
}

// fullIsDue reports whether the window is to be fitted anew.
func (r *runner) fullIsDue() bool {
	o, since := r.job.Retrain.Full, r.window.Chain.Number-r.window.Full
	switch {
	case r.renews:
		return true
	case r.window.Rows() == 0: // nothing to fit
		return false
	case r.attempt > 0, r.head.Window == nil:
		return true
	case len(r.newClasses()) > 0 && r.job.Retrain.OnNewClass == topics.NewClassFull:
		return true
	case since == 0:
		return false
	case r.window.Rejected == 1:
		return true
	case o.Every > 0 && since >= o.Every:
		return true
	}
	return o.Growth > 0 && float64(r.window.Rows()) >= o.Growth*float64(r.window.FullRows)
}

// newClasses returns the labels of the window that are no class of the newest version, but have enough rows to be one.
func (r *runner) newClasses() (labels []string) {
	for _, unknown := range r.window.Unknown {
		if unknown.Rows >= r.job.Retrain.NewClassRows {
			labels = append(labels, unknown.Label)
		}
	}
	return labels
}

// NewClassError means that examples have labels that are not classes, and that the configuration stops the run then.
type NewClassError struct{ Labels []string }

// Error names the labels.
func (e *NewClassError) Error() string {
	return fmt.Sprintf("examples have labels %q, which are not classes of the newest version (retrain.on_new_class: stop): set it "+
		"to full to learn them, or to quarantine to exclude them", e.Labels)
}

// chainPlan returns what all plans of the chain have in common. sources are those that count, as the ledger sealed says.
func (r *runner) chainPlan(ctx context.Context, l, sealed *protocol.Ledger, sources []schemas.SourceSeal,
	spans coverage.Spans) (plan *schemas.Plan, err error) {
	job := r.job
	plan = &schemas.Plan{
		Name: job.Name, Input: planning.InputOf(job.Examples), Classes: job.Examples.Classes, ClassWeight: job.Examples.ClassWeight,
		Targets: job.Examples.Targets, Labels: job.Examples.PlanLabels(), Missing: job.Examples.Missing, Holdout: job.Examples.Holdout,
		OnBadMessage: job.OnBadMessage, Stages: job.Stages, Intercept: job.Intercept, Threshold: job.Threshold,
		Arithmetic: r.here, Seed: job.Seed, Segment: job.Segment, Group: job.Group, Foreign: true,
		Topic: topics.ArchiveTopic(r.Pipeline), Spans: spans,
		Chain: &schemas.Chain{
			Number: r.number, Attempt: r.attempt, Begins: slices.Clone(r.backlog.begins), Open: len(job.Examples.Classes) == 0,
			Made: r.Clock.Now().UnixMilli(), Lost: slices.Clone(r.backlog.lost), Marks: r.backlog.marks, AtLeast: r.least,
		},
	}
	if pinsWithheld(l) {
		plan.Chain.AtLeast = 0 // the operator says so
	}
	for _, lost := range r.backlog.lost {
		event.Notice(r.rec, "%s[%d] deleted offsets %d to %d before a version of the chain learnt their messages: these are lost",
			r.Topics.Examples, lost.Partition, lost.From, lost.To-1)
	}
	plan.Arithmetic.Any = job.Arithmetic == planning.ArithmeticAny
	var earlier *schemas.Plan
	if r.head != nil {
		plan.Chain.Parent, earlier = &schemas.Warm{Run: r.head.Run, Manifest: r.head.Digest()}, r.head.Plan
	}
	plan.Stages = stages.Placed(plan.Stages, earlier)
	if plan.Prepare, err = planning.PrepareOf(ctx, r.Pipeline, job, earlier); err != nil {
		return nil, err
	}
	if r.head != nil {
		offered, err := r.offered(ctx, l)
		if err != nil {
			return nil, err
		}
		if offered == nil || r.hasLearnt(offered.Run) {
			plan.Chain.AtLeast = 0 // nobody has it, or forget says so
		} else {
			o := r.job.Retrain.Gate
			plan.Chain.Gate = &schemas.Gate{Split: o.Split, Margin: o.Margin, Offered: schemas.Warm{Run: offered.Run, Manifest: offered.Digest()}}
		}
	}
	listSources(plan, sealed, sources, spans)
	plan.Chain.Progress = progressOf(r.progress(), plan.Sources)
	if err := heed.Compare(ctx, r.Pipeline, r.forgotten); err != nil {
		return nil, err
	}
	plan.Forgotten, plan.Heeded = r.forgotten.Rows.Within(r.windowWith(spans)), r.forgotten.Heeded()
	if plan.Since, err = r.Now(ctx); err != nil {
		return nil, err
	}
	if r.window != nil && r.stored != nil && r.attempt == 0 { // an attempt that has failed may have surveyed the same
		_, plan.Since.Quarantine, err = r.Log.Bounds(ctx, r.Topics.Quarantine, 0)
	}
	return plan, err
}

// pinsWithheld reports whether somebody has pinned a version that was withheld.
func pinsWithheld(l *protocol.Ledger) bool {
	pinned := l.Pinned()
	return pinned != nil && pinned.Withheld
}

// listSources lists in a plan the sources that have messages in spans, and those of them that are removed.
func listSources(plan *schemas.Plan, sealed *protocol.Ledger, sources []schemas.SourceSeal, spans coverage.Spans) {
	plan.Sources, plan.Removed = nil, nil
	for _, seal := range sources {
		if topics.Overlaps(&seal, spans) {
			seal.Files = nil
			plan.Sources = append(plan.Sources, seal)
		}
	}
	for _, seal := range sealed.Removed() {
		if topics.Overlaps(seal, spans) {
			plan.Removed = append(plan.Removed, seal.Name())
		}
	}
}

// progress returns how far the chain has counted sources.
func (r *runner) progress() []schemas.SourceProgress {
	if r.window == nil {
		return r.counted
	}
	return r.window.Progress
}

// sources returns a seal of each source of which a topic with those bounds has something left. If the chain has begun to count a source, it
// is the one that it has begun with: of two ingests of the same rows only one counts.
func (r *runner) sources(l *protocol.Ledger, bounds []coverage.Span) []schemas.SourceSeal {
	seals := planning.Remaining(l, bounds)
	for i := range seals {
		for _, other := range l.Seals(seals[i].ID) {
			begun := slices.ContainsFunc(r.progress(), func(p schemas.SourceProgress) bool {
				return p.Source == other.ID &&
					p.Attempt == other.Attempt
			})
			if begun && other.Held(bounds) > schemas.HeldNot {
				seals[i] = *other
				break
			}
		}
	}
	return seals
}

// progressOf returns the progress of the sources of a plan, and of topics that ingest follows, which no plan names.
func progressOf(all []schemas.SourceProgress, sources []schemas.SourceSeal) (progress []schemas.SourceProgress) {
	for _, p := range all {
		if schemas.IsTopicSource(p.Source) || slices.ContainsFunc(sources, func(s schemas.SourceSeal) bool {
			return s.ID == p.Source &&
				s.Attempt == p.Attempt
		}) {
			progress = append(progress, p)
		}
	}
	return progress
}

// firstPlan returns the plan of the first run of a chain: a full run over the first increment.
func (r *runner) firstPlan(ctx context.Context, l, sealed *protocol.Ledger, sources []schemas.SourceSeal,
	spans coverage.Spans, rows int64) (*schemas.Plan, error) {
	plan, err := r.chainPlan(ctx, l, sealed, sources, spans)
	if err != nil {
		return nil, err
	}
	if r.choose != nil && r.head == nil {
		chosen, err := r.choose(ctx, plan, rows)
		if err != nil {
			return nil, err
		}
		r.job.Stages, plan.Stages, plan.Prepare = chosen.Stages, stages.Placed(chosen.Stages, nil), chosen.Prepare
	}
	if r.adds(plan, spans); r.head != nil { // nothing is left of what the chain had
		plan.Chain.Ends, plan.Chain.Progress, plan.Chain.Had = slices.Clone(r.backlog.ends), progressOf(r.counted, sources), r.had
	}
	return plan, nil
}

// adds says in a plan which messages it adds to what the chain has looked at.
func (r *runner) adds(plan *schemas.Plan, spans coverage.Spans) {
	future := 0
	plan.Chain.From, plan.Chain.Until, future = r.backlog.times(spans, plan.Chain.Made)
	if plan.Chain.Marks = r.backlog.marksAfter(spans); future > 0 {
		event.Notice(r.rec, "%d of the next messages of %s have timestamps in the future: they count as written "+
			"now. Check the clocks of the producers", future, r.Topics.Examples)
	}
}

// fullPlan returns the plan of a full run over the window. It adds no rows, so every row is scored before it is learnt.
// If there is no row to fit to, as all are forgotten, or their sources are removed or have lost messages, it is nil, and the chain
// begins again. If one class is left, it is nil, and only is that class.
func (r *runner) fullPlan(ctx context.Context, l, sealed *protocol.Ledger, sources []schemas.SourceSeal) (*schemas.Plan, error) {
	spans, err := r.windowWith(nil).Union(nil)
	if err != nil {
		return nil, err
	}
	plan, err := r.chainPlan(ctx, l, sealed, sources, spans)
	if err != nil {
		return nil, err
	}
	r.listIncrements(plan.Chain, r.window)
	keepsRows(l, plan)
	r.keepWhatCounted(plan.Chain, sources)
	plan.Chain.Had = r.had
	// A source that has lost messages counts no longer, so that increments that are still there may have no row that does.
	if len(plan.Forgotten)+len(plan.Removed) > 0 || r.renews {
		if any, err := r.anyFits(ctx, plan); err != nil {
			return nil, err
		} else if !any {
			event.Notice(r.rec, "all rows of version %d are forgotten or lost, or their sources removed: the chain begins again "+
				"with the next examples", r.head.Version)
			r.beginAgain()
			return nil, nil
		}
	}
	if plan.Classes, err = r.classesLeft(ctx, plan); err != nil {
		return nil, err
	}
	if len(plan.Classes) == 1 && !r.backlog.tellApart(plan.Classes) {
		r.only = plan.Classes
		return nil, nil
	}
	plan.Chain.Merge = r.job.Retrain.MergesOfFull(plan.Chain.Increments, r.mostTerms())
	return plan, nil
}

// listIncrements lists in the plan of a full run the increments that it cuts a window into.
func (r *runner) listIncrements(chain *schemas.Chain, w *schemas.Window) {
	for _, c := range w.Shortened(r.windowBytes) {
		chain.Increments = append(chain.Increments, c.Increment)
		chain.Times = append(chain.Times, coverage.IncrementTime{Number: c.Increment.Number, Until: c.Until})
	}
}

// keepsRows has the version of a full run withheld if it has learnt fewer rows than the increments that the plan lists:
// whatever the reason, subscribers keep the version that they have. Rows that are forgotten, or whose source is
// removed, are to be missing.
func keepsRows(l *protocol.Ledger, plan *schemas.Plan) {
	if len(plan.Forgotten) > 0 || len(plan.Removed) > 0 || plan.Chain.Gate == nil || pinsWithheld(l) {
		return
	}
	rows := int64(0)
	for i := range plan.Chain.Increments {
		rows += plan.Chain.Increments[i].Rows()
	}
	plan.Chain.AtLeast = max(plan.Chain.AtLeast, rows)
}

// mostTerms returns how many terms the state topic may have; 0: any number, or none at all.
func (r *runner) mostTerms() int {
	if !topics.Updatable(r.job.Stages) {
		return 0
	}
	return r.job.Retrain.MostTerms(cmp.Or(r.job.Topics, topics.DefaultTopics()).State, r.window)
}

// classes returns the classes of a full run over the window: those that a configuration names, or those of the newest version and the new
// ones; none if the run finds them.
func (r *runner) classes() []string {
	if len(r.job.Examples.Classes) > 0 || len(r.only) > 0 {
		return r.job.Examples.Classes
	}
	labels := slices.Clone(r.head.Labels)
	if r.job.Retrain.OnNewClass == topics.NewClassFull {
		labels = append(labels, r.newClasses()...)
		examples.SortLabels(labels)
	}
	return labels
}

// keepWhatCounted has a full run go on from what the runs before it have looked at and counted: no update of that is between them.
func (r *runner) keepWhatCounted(chain *schemas.Chain, sources []schemas.SourceSeal) {
	chain.Ends, chain.Progress = slices.Clone(r.backlog.ends), progressOf(r.window.Progress, sources)
}

// updatePlan returns the plan of an update that adds the rows in spans, of which there are found.
func (r *runner) updatePlan(ctx context.Context, l, sealed *protocol.Ledger, sources []schemas.SourceSeal, spans coverage.Spans,
	found int64) (*schemas.Plan, error) {
	plan, err := r.chainPlan(ctx, l, sealed, sources, spans)
	if err != nil {
		return nil, err
	}
	r.adds(plan, spans)
	o, window := r.job.Retrain, r.window.Without(spans)
	if !topics.Updatable(plan.Stages) || plan.Holdout != r.head.Plan.Holdout ||
		plan.Threshold != r.head.Plan.Threshold || !plan.Arithmetic.Admits(r.head.Plan.Arithmetic) ||
		planning.CheckFeatures(plan, r.head.Plan) != nil || len(plan.Stages) != len(r.head.Plan.Stages) || len(r.only) > 0 {
		return r.fullWith(plan, l, sealed, sources, window)
	}
	plan.Warm = plan.Chain.Parent
	if r.restarts() {
		plan.Chain.AtLeast = 0
		if window.Sparse { // the weights follow what is left by a full run
			window.Increments = slices.DeleteFunc(window.Increments,
				func(c schemas.WindowIncrement) bool { return c.Increment.Number < window.Changed })
			return r.fullWith(plan, l, sealed, sources, window)
		}
		restart(plan, window, o)
		return plan, nil
	}
	plan.Chain.Update = &schemas.Update{Passes: o.Passes, Decay: o.Decay, Sparse: window.Sparse}
	stays, err := r.leave(ctx, plan.Chain, window, found)
	if err != nil {
		return nil, err
	}
	if !anyFitted(stays) {
		fits, err := r.anyFits(ctx, plan)
		if err != nil {
			return nil, err
		}
		if !fits { // nothing would be left to fit to, so nothing leaves until rows come
			stays, plan.Chain.Update.Leave = window.Increments, nil
		}
	}
	window.Increments = stays
	if len(plan.Chain.Update.Leave) > 0 { // the window says so
		plan.Chain.AtLeast = 0
	}
	if window.Sparse { // an update keeps the past as a quadratic, and visits nothing again
		o.Refresh = 0
	}
	for _, c := range window.Longest(o.Refresh, max(o.Rows, found)) {
		c.Increment.Weight *= o.Decay
		plan.Chain.Update.Refresh = append(plan.Chain.Update.Refresh, c.Increment)
	}
	r.takeAway(plan, window)
	return plan, o.Shorten(plan.Chain, window, r.mostTerms(), r.windowBytes)
}

// restarts reports whether the stream has changed, so that what came before the change is to be dropped.
func (r *runner) restarts() bool {
	return r.window.Changed > 0 && r.job.Retrain.Full.Drift && r.attempt == 0 && !r.renews
}

// restart makes a plan that of an update after a change of the stream: what came before the change leaves the window, and all that is left
// is visited.
func restart(plan *schemas.Plan, window *schemas.Window, o topics.RetrainOptions) {
	u := &schemas.Update{Passes: max(o.Passes, restartPasses), Decay: 1, Restart: true}
	for _, c := range window.Increments {
		if c.Increment.Number < window.Changed {
			u.Leave = append(u.Leave, c.Increment)
			continue
		}
		c.Increment.Weight = 1
		u.Refresh = append(u.Refresh, c.Increment)
	}
	plan.Chain.Update = u
}

// restartPasses is how many passes an update makes at least that begins with empty sums: as the first version of a chain.
const restartPasses = 3

// fullWith makes of the plan of an increment that of a full run over the window and the increment: no update can go on from the version
// before.
func (r *runner) fullWith(plan *schemas.Plan, l, sealed *protocol.Ledger, sources []schemas.SourceSeal,
	window *schemas.Window) (*schemas.Plan, error) {
	r.keepWhatCounted(plan.Chain, sources)
	increment := coverage.Increment{Number: plan.Chain.Number, Weight: 1, Covered: byPartition(plan.Spans)}
	r.listIncrements(plan.Chain, window)
	all, err := plan.Spans.Union(window.Spans())
	if err != nil {
		return nil, err
	}
	plan.Spans, plan.Classes = all, r.classes()
	listSources(plan, sealed, sources, all)
	keepsRows(l, plan)
	plan.Chain.Increments = append(plan.Chain.Increments, increment)
	plan.Chain.Merge = r.job.Retrain.MergesOfFull(plan.Chain.Increments, r.mostTerms())
	return plan, nil
}

// leave adds to an update the increments that leave the window when found rows come, and returns those that stay.
func (r *runner) leave(ctx context.Context, chain *schemas.Chain, window *schemas.Window,
	found int64) (stays []schemas.WindowIncrement, err error) {
	o, rows, u := r.job.Retrain.Window, window.Rows()+found, chain.Update
	var staying []coverage.Span // what retention does not take within the longest run
	if r.retention.Time > 0 || r.retention.Bytes > 0 {
		bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
		if err != nil {
			return nil, err
		}
		if staying, err = topics.Staying(ctx, r.Pipeline, r.retention, bounds); err != nil {
			return nil, err
		}
	}
	list, most := *window, r.mostTerms() // what is left of the window
	left := 0                            // increments with rows
	for i := range window.Increments {
		if c := &window.Increments[i].Increment; c.Rows() > 0 {
			left += c.Size()
		}
	}
	for _, group := range window.Groups() {
		has, with, oldest, gone := int64(0), 0, int64(math.MaxInt64), false // of merged increments, which leave together
		for _, i := range group {
			c := &window.Increments[i]
			if has += c.Increment.Rows(); c.Increment.Rows() > 0 {
				with += c.Increment.Size()
			}
			oldest, gone = min(oldest, c.Until), gone || expires(&c.Increment, staying)
		}
		switch first := len(stays) == 0; {
		case has == 0: // it pushes no other out
		case first && o.Increments > 0 && left+1 > o.Increments:
		case first && o.Rows > 0 && rows-has >= o.Rows:
		case first && r.job.Retrain.LeavesByDecay(&list, most, r.windowBytes):
		case o.Time > 0 && oldest < chain.Until-o.Time.Milliseconds():
		case gone: // also a later one, of a source that was sealed late
		default:
			for _, i := range group {
				stays = append(stays, window.Increments[i])
			}
			continue
		}
		rows, left = rows-has, left-with
		if len(stays) == 0 {
			list.Increments = list.Increments[len(group):]
		}
		for _, i := range group {
			c := window.Increments[i].Increment
			c.Weight *= u.Decay
			u.Leave = append(u.Leave, c)
		}
	}
	return stays, nil
}

// anyFitted reports whether weights were fitted to rows of some increment.
func anyFitted(increments []schemas.WindowIncrement) bool {
	return slices.ContainsFunc(increments, func(c schemas.WindowIncrement) bool { return c.Fitted > 0 })
}

// expires reports whether retention may take rows of an increment within the longest run. staying is what it does not take.
func expires(c *coverage.Increment, staying []coverage.Span) bool {
	return slices.ContainsFunc(c.Covered, func(covered coverage.Coverage) bool {
		span := covered.Spans[0]
		return span.Partition < len(staying) && span.From < staying[span.Partition].From
	})
}
