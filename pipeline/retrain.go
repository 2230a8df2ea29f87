package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Retrain retrains continuously as examples arrive, or with untilEnd until all current examples of the topic are
// processed. It ingests the job's files first, and concurrently the job's source topic. Of several processes that retrain
// a pipeline, one is active and the others stand by.
func Retrain(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job topics.Job, untilEnd bool,
	rec event.Recorder) (*Retraining, error) {
	if job.Examples.Augment != (schemas.Augment{}) {
		return nil, errors.New("examples.augment: `run` does not support augmentation: remove the key, or use `train`")
	}
	if job.Average > 1 {
		return nil, errors.New("average: `run` does not support averaging: remove the key, or use `train`")
	}
	if problems := solve.CheckChained(job.Stages); len(problems) > 0 {
		return nil, problems[0]
	}
	job.Stages = model.Chained(job.Stages)
	lost := &losses{to: rec}
	rec = event.Serialised(lost.record)
	p := topics.OpenFor(log, job, nil)
	if err := source.CheckSource(ctx, p, job); err != nil {
		return nil, err
	}
	if err := topics.Create(ctx, p, &job); err != nil {
		return nil, err
	}
	if err := checkWords(ctx, p, job); err != nil {
		return nil, err
	}
	var err error
	job.Examples.Once = true
	if job.Examples, err = source.AfterChain(ctx, p, job.Examples); err != nil {
		return nil, err
	}
	if job.Examples, err = source.AfterIngested(ctx, p, job.Examples); err != nil {
		return nil, err
	}
	files, err := source.IngestFiles(ctx, p, job, rec)
	if err != nil {
		return nil, err
	}
	job.Examples.Found.Extent = files.Extent
	bytes, err := visit.CacheBytes(job.Memory)
	if err != nil {
		return nil, err
	}
	cache := visit.NewCache(bytes)
	join := func(ctx context.Context) (execution, func(), error) {
		members, err := dispatch.Join(ctx, p, job, cache, blas, rec)
		if err != nil {
			return nil, nil, err
		}
		return members.Execute, members.Leave, nil
	}
	var owner protocol.Owner = protocol.NewSoleOwner(1)
	if !log.Embedded() {
		group := log.Join(p.Topics.Group(protocol.RoleRun), p.Topics.Plans)
		defer func() {
			if err := group.Leave(); err != nil {
				event.Notice(rec, "leave the group of runners: %v", err)
			}
		}()
		owner = group
	}
	began := p.Clock.Now()
	r := newRunner(p, job, owner, dispatch.Arithmetic(blas), join, rec)
	r.retention = files.Retention
	if replay.NeedsChoice(job, true) {
		r.choose = func(ctx context.Context, plan *schemas.Plan, rows int64) (topics.Job, error) {
			return replay.ResolvePlanned(ctx, p, dispatch.NewProcess(blas), job, plan, rows, rec)
		}
	}
	err = r.run(ctx, untilEnd)
	r.report.Seconds, r.report.LostColumns, r.report.LostMessages = p.Clock.Since(began).Seconds(), lost.columns, lost.messages
	if r.report.Seconds > 0 {
		r.report.RowsPerSecond = float64(r.report.Rows) / r.report.Seconds
	}
	return r.report, err
}

// checkWords returns an error if the words of the chain's rows have other columns than those of the job, before any files
// are ingested.
func checkWords(ctx context.Context, p *topics.Pipeline, job topics.Job) error {
	m, err := p.Version(ctx, protocol.Latest)
	switch {
	case protocol.IsMissing(err):
		return nil
	case err != nil || m.Plan.Chain == nil:
		return err
	}
	if err := dispatch.CheckWords(job.Examples.Input(), m.Plan.Input); err != nil {
		return fmt.Errorf("version %d of the chain has learnt rows with %w: set these keys as they were, or give the pipeline another "+
			"name", m.Version, err)
	}
	return nil
}

// Retraining is the report of a chain of runs.
type Retraining struct {
	Name    string                   `json:"name"`
	Updates []*schemas.RetrainReport `json:"updates"`
	// PrequentialError is in percent, over all rows that were scored before training; null if there are none.
	PrequentialError *float64 `json:"prequential_error"`
	// Curve is the prequential error along the log, in at most 400 bins.
	Curve         []statistics.ErrorBin `json:"curve,omitempty"`
	Rows          int64                 `json:"rows"` // training rows
	Seconds       float64               `json:"seconds"`
	RowsPerSecond float64               `json:"rows_per_second"`
	WeightsDigest wire.Digest           `json:"weights_digest"` // of the last version
	// LostColumns are rows of the followed topic that were quarantined because they lack a column that earlier rows had, by column.
	LostColumns map[string]int64 `json:"lost_columns,omitempty"`
	// LostMessages are the offsets of the followed topic that were not read: deleted before, or missing in its archive.
	LostMessages int64 `json:"lost_messages,omitempty"`
	// Confusion is the confusion matrix of the predictions before training: by label, then by prediction. Labels are in order.
	Labels    examples.ClassLabels `json:"labels,omitempty"`
	Confusion [][]int64            `json:"prequential_confusion,omitempty"`

	scored, wrong float64
}

// curveBins is the maximum number of bins of a chain's curve.
const curveBins = 400

// add adds the report of a run.
func (r *Retraining) add(report *schemas.Report) {
	if report.Retrain == nil {
		return
	}
	u := *report.Retrain
	r.Curve = statistics.Shorten(append(r.Curve, u.Curve...), curveBins)
	u.Curve = nil // a chain may have any number of runs
	r.Updates = append(r.Updates, &u)
	r.Rows += u.Rows
	if u.PrequentialError != nil {
		r.scored += float64(u.Rows)
		r.wrong += float64(u.Rows) * *u.PrequentialError / 100
		e := 100 * r.wrong / max(r.scored, 1)
		r.PrequentialError = &e
		r.addConfusion(report.Labels, report.Splits[examples.Train.String()].Confusion)
	}
	r.WeightsDigest = report.WeightsDigest
}

// addConfusion adds a confusion matrix. A full run may add classes.
func (r *Retraining) addConfusion(labels []string, confusion [][]int64) {
	if confusion == nil {
		return
	}
	all := slices.Clone(r.Labels)
	for _, label := range labels {
		if !slices.Contains(all, label) {
			all = append(all, label)
		}
	}
	examples.SortLabels(all)
	sum := make([][]int64, len(all))
	for i := range sum {
		sum[i] = make([]int64, len(all))
	}
	add := func(labels []string, confusion [][]int64) {
		for i, row := range confusion {
			for j, n := range row {
				sum[slices.Index(all, labels[i])][slices.Index(all, labels[j])] += n
			}
		}
	}
	add(r.Labels, r.Confusion)
	add(labels, confusion)
	r.Labels, r.Confusion = all, sum
}

// execution executes a run until it has ended, or follows its execution, and returns its report. The ledger has the run's
// plan.
type execution func(context.Context, *schemas.Plan, *protocol.Ledger) (*schemas.Report, error)

// runner submits the runs of a chain, and follows them to their ends.
type runner struct {
	*topics.Pipeline
	job       topics.Job
	owner     protocol.Owner     // of the plans topic in the group of runners: the owner submits
	here      schemas.Arithmetic // of this process
	join      func(context.Context) (work execution, leave func(), err error)
	work      execution                                                       // while this process is the active one
	choose    func(context.Context, *schemas.Plan, int64) (topics.Job, error) // chooses stages by the first plan; nil: the job has them
	rec       event.Recorder
	retention topics.ExamplesRetention
	backlog   *backlog
	forgotten *source.Forgotten
	learnt    []schemas.Place // versions trained on forgotten rows
	report    *Retraining
	differs   string // the settings that differ from those of the newest plan, as reported

	chain    chainState
	proven   bool         // the examples topic has the messages processed by the chain
	earlier  []earlier    // versions before the head, newest first
	refused  bool         // deletion of their records was denied
	passed   map[int]bool // incomplete versions
	failures int          // since the last version
	made     string       // last run submitted by this process
	waits    bool         // for a second class, which was reported
	only     []string     // the only class left in the window without forgotten rows; empty: more, or unknown

	windowBytes int64                                      // see schemas.WindowBytes
	pause       func(context.Context, time.Duration) error // after a failed run, to give the cause time to pass
}

// newRunner returns the runner of a job's chain. It joins the groups of workers and solvers only when this process is the
// active one of its group, because nothing would process the partitions of a standby process.
func newRunner(p *topics.Pipeline, job topics.Job, owner protocol.Owner, here schemas.Arithmetic,
	join func(context.Context) (execution, func(), error), rec event.Recorder) *runner {
	forgotten := source.NewForgotten()
	return &runner{Pipeline: p, job: job, owner: owner, here: here, join: join, rec: rec,
		backlog: newBacklog(p, forgotten, firstLabels(job)), forgotten: forgotten,
		report: &Retraining{Name: job.Name, Updates: []*schemas.RetrainReport{}},
		passed: map[int]bool{}, windowBytes: schemas.WindowBytes, pause: protocol.Pause}
}

// run makes one version after another, while this process is the active one of its group.
func (r *runner) run(ctx context.Context, untilEnd bool) error {
	for {
		if err := topics.AwaitTurn(ctx, r.Pipeline, r.owner, protocol.RoleRun, errNotActive, r.compareSettings, r.rec); err != nil {
			return err
		}
		if err := r.compareSettings(ctx); err != nil {
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
	}
}

// ingestAndGoOn makes one version after another, and concurrently ingests the job's topic. With untilEnd that topic is
// first read to its end.
func (r *runner) ingestAndGoOn(ctx context.Context, untilEnd bool) error {
	switch {
	case r.job.Examples.FromTopic == "":
		return r.goOn(ctx, untilEnd)
	case untilEnd:
		if err := source.NewFollow(r.Pipeline, r.job, true, r.rec).Run(ctx); err != nil {
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

// goOn makes one version after another. The error is errNotActive if another process continues.
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
		numbers, err := r.AnnounceVersions(ctx, l)
		if len(numbers) > 0 {
			event.Notice(r.rec, "%s has lost earlier versions: %s are complete on %s, and are announced again", r.Topics.Plans,
				english.WordSeries(numbers, "and"), r.Topics.Versions)
		}
		if err != nil {
			return err
		}
		if len(numbers) > 0 { // the ledger is outdated
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

// errNotActive means that another process retrains the pipeline now.
var errNotActive = errors.New("another process retrains this pipeline")

// checkActive returns errNotActive unless this process is the active one of its group.
func (r *runner) checkActive() error {
	active, err := protocol.Owns(r.owner, 0)
	if err == nil && !active {
		err = errNotActive
	}
	return err
}

// finish finishes earlier submitted runs. It reports whether there were any: the ledger is then outdated.
func (r *runner) finish(ctx context.Context, l *protocol.Ledger) (waited bool, err error) {
	if err := r.endOvertaken(ctx, l); err != nil {
		return false, err
	}
	for id, plan := range l.Unfinished() {
		if why := dispatch.Unable(r.Pipeline, plan, r.here); why != "" {
			// The chain makes another run. One of `train` is left to other processes, which the embedded broker does not have.
			if plan.Chain != nil || r.Admin.Embedded() {
				return true, r.cancel(ctx, schemas.End{Run: id, State: schemas.Cancelled, Reason: why})
			}
			event.Notice(r.rec, "run %s was submitted earlier and is not finished: waiting for other processes to finish it: %s", id, why)
			return true, dispatch.EndedOrGivenUp(ctx, r.Pipeline, plan, r.rec)
		}
		event.Notice(r.rec, "run %s was submitted earlier and is not finished: waiting for it", id)
		return true, r.execute(ctx, plan, l)
	}
	return false, nil
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
	r.made = plan.Run()
	l, err := r.Submit(ctx, plan)
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
		return nil // another process is active, or has executed the run: the topics determine the next step
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
		r.proven = false // lost messages may have caused the failure
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

// compareSettings reports the keys of the job that differ from those of the newest plan of the chain, once: of several
// processes that retrain a pipeline, each makes versions by its own configuration while it is the active one.
func (r *runner) compareSettings(ctx context.Context) error {
	run, keys, err := Differing(ctx, r.Pipeline, r.job)
	if err != nil {
		return err
	}
	differs := strings.Join(keys, ", ")
	if differs != "" && differs != r.differs {
		event.Notice(r.rec, "this configuration differs from that of run %s: %s. Versions are made by the configuration of the active "+
			"process: give all that run a pipeline the same one", run, differs)
		ingested := []string{"examples.label", "examples.label_columns", "examples.labels", "examples.targets", "examples.weight"}
		if slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(ingested, key) }) {
			event.Notice(r.rec, "rows on %s keep the labels, targets and weights that they were ingested with: those that lack what this "+
				"configuration needs are not learnt. Give the pipeline another name to ingest all rows again", r.Topics.Examples)
		}
	}
	r.differs = differs
	return nil
}

// Differing returns the keys of a job whose values differ from those of the chain: of its unfinished run, or else of the newest version for
// subscribers.
func Differing(ctx context.Context, p *topics.Pipeline, job topics.Job) (run string, keys []string, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return "", nil, err
	}
	var plan *schemas.Plan
	for _, unfinished := range l.Unfinished() {
		if unfinished.Chain != nil {
			plan = unfinished
			break
		}
	}
	if plan == nil {
		m, err := p.Version(ctx, protocol.Latest)
		if protocol.IsMissing(err) {
			return "", nil, nil
		}
		if err != nil {
			return "", nil, err
		}
		plan = m.Plan
	}
	if plan.Chain == nil || len(plan.Chain.Settings) == 0 {
		return "", nil, nil
	}
	settings := job.Settings()
	for _, pair := range [][2][]schemas.Setting{{settings, plan.Chain.Settings}, {plan.Chain.Settings, settings}} {
		for _, s := range pair[0] {
			if !slices.Contains(pair[1], s) {
				keys = append(keys, s.Key)
			}
		}
	}
	slices.Sort(keys)
	return plan.Run(), slices.Compact(keys), nil
}
