package pipeline

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Search ingests the files of the first job, and trains all jobs: see [replay.SearchIngested]. Jobs without stages use
// those chosen for the first of them. A rule that ends stages ends those of each job as in [Train], and the auto ridge of sparse
// rows is chosen for each. Jobs on sparse rows without a configured preparation and fit use those chosen for the first job with the
// same link.
func Search(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, jobs []topics.Job, folds int, rec event.Recorder,
	with func(int, *replay.Candidate) error) error {
	rec = event.Serialised(rec)
	p, by := topics.OpenFor(log, jobs[0], nil), dispatch.NewProcess(blas)
	if err := topics.Create(ctx, p, &jobs[0]); err != nil {
		return err
	}
	first := jobs[0] // sparse rows become dense if all jobs need that
	takesSparse := func(j topics.Job) bool { return !j.Examples.Dense }
	first.Examples.Dense = !slices.ContainsFunc(jobs, takesSparse)
	files, err := source.IngestExamples(ctx, p, first, rec)
	if err != nil {
		return err
	}
	chosen := map[schemas.Link]topics.Job{} // shared choices by link; empty: without stages
	for i := range jobs {
		job := &jobs[i]
		if !replay.NeedsChoice(*job, false) {
			continue
		}
		shared, link := len(job.Stages) == 0 || job.Untuned, schemas.Link("")
		if job.Untuned {
			link = job.Stages[0].Link
		}
		of, known := chosen[link]
		if !shared || !known {
			if of, err = replay.Resolve(ctx, p, by, *job, files, rec); err != nil {
				return err
			}
		}
		if shared {
			chosen[link] = of
		}
		switch {
		case len(job.Stages) > 0:
			job.Prepare = of.Prepare
		case job.Prepare.Scale == prepare.ScaleAuto:
			job.Prepare.Scale = of.Prepare.Scale
		}
		job.Stages = of.Stages
	}
	return replay.SearchIngested(ctx, p, by, jobs, files, folds, rec, with)
}
