package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	rec = event.Serialised(rec)
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
		group := log.Join(p.Topics.Runners(), p.Topics.Plans)
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
	if err := r.run(ctx, untilEnd); err != nil {
		return r.report, err
	}
	r.report.Seconds = p.Clock.Since(began).Seconds()
	if r.report.Seconds > 0 {
		r.report.RowsPerSecond = float64(r.report.Rows) / r.report.Seconds
	}
	return r.report, nil
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
	// percent, of all rows that were scored before training; null if there are none
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
