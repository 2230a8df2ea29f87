package pipeline

import (
	"fmt"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The runs of a search have the weights of separate runs, whatever of them is shared and however little memory there is
// for it.
func TestSearchHasTheWeightsOfSeparateRuns(t *testing.T) {
	long(t)
	job := newJob(t, rings(700, 3, 3, 1), rings(80, 3, 3, 2), rffStage(link.Softmax, 30, 4), rffStage(link.Calibrated, 20, 2),
		rffStage(link.Softmax, 20, 3), rffStage(link.Identity, 20, 1))
	job.Examples.Holdout = 0.2
	job.Stages[2].Scores, job.Stages[0].GramRows = true, "200"
	var jobs []topics.Job
	for _, change := range []func(*topics.Job){
		func(*topics.Job) {},
		func(j *topics.Job) { j.Stages[0].Ridge = 0.1 },
		func(j *topics.Job) { j.Stages[1].Ridge, j.Stages[3].Ridge = 0.1, schemas.RidgeAuto },
		func(j *topics.Job) { j.Stages[0].GramRows = "all" },
		func(j *topics.Job) { j.Seed = 2 },
		func(j *topics.Job) { j.Stages[1].Features.Size = 25 },
		func(j *topics.Job) { j.Prepare.PCA = 2 },
		func(j *topics.Job) { j.Stages = j.Stages[:2] },
		func(j *topics.Job) { j.Intercept = false },
		func(j *topics.Job) { j.Average, j.Stages = 2, j.Stages[:2] }, // stage 2 begins a member
		func(*topics.Job) {},
	} {
		j := job
		j.Stages = append([]schemas.Stage(nil), job.Stages...)
		change(&j)
		jobs = append(jobs, j)
	}
	log := openEmbedded(t)
	var alone []wire.Digest
	for _, j := range jobs {
		report, _ := train(t, log, j)
		alone = append(alone, report.WeightsDigest)
	}
	for _, memory := range []int64{1 << 30, 200_000, 1} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			for i := range jobs {
				jobs[i].Memory = memory
			}
			ended := 0
			err := Search(t.Context(), log, openBLAS(t), jobs, 0, event.Ignore{}, func(i int, c *replay.Candidate) error {
				if c.Err != nil || c.Report.WeightsDigest != alone[i] {
					t.Errorf("candidate %d: %v, expected digest %s in %+v", i, c.Err, alone[i], c.Report)
				}
				ended++
				return nil
			})
			if err != nil || ended != len(jobs) {
				t.Fatalf("%v after %d of %d runs", err, ended, len(jobs))
			}
		})
	}
	left, err := log.Topics(t.Context(), job.Name+".search-")
	if err != nil || len(left) > 0 {
		t.Errorf("%v are still there, %v", replay.Names(left), err)
	}
}

// Of each job of a search with folds a run holds out each fold: together all training rows, each once, and test rows never. Whatever runs
// share, each has the weights that it has alone, and those of different folds differ.
func TestSearchWithFolds(t *testing.T) {
	const rows, folds = 600, 4
	job := newJob(t, rings(rows, 3, 3, 1), rings(80, 3, 3, 2), rffStage(link.Softmax, 30, 3))
	other := job
	other.Stages = append([]schemas.Stage(nil), job.Stages...)
	other.Stages[0].Ridge = 0.1
	log := openEmbedded(t)
	digests := map[examples.Fold][]wire.Digest{}
	search := func(jobs ...topics.Job) (made [][]*replay.Candidate) {
		made = make([][]*replay.Candidate, len(jobs))
		noError(t, Search(t.Context(), log, openBLAS(t), jobs, folds, event.Ignore{}, func(i int, c *replay.Candidate) error {
			if c.Err != nil {
				return c.Err
			}
			made[i] = append(made[i], c)
			return nil
		}))
		return made
	}
	both := search(job, other)
	for i, runs := range both {
		held, seen := int64(0), map[wire.Digest]bool{}
		for _, c := range runs {
			splits := c.Report.Splits
			train, holdout, test := splits["train"].Rows, splits["holdout"].Rows, splits["test"].Rows
			if train+holdout != rows || test != 80 || holdout < rows/folds*7/10 || holdout > rows/folds*13/10 {
				t.Errorf("job %d, fold %+v: %d, %d and %d rows", i, c.Plan.Fold, train, holdout, test)
			}
			held += holdout
			seen[c.Report.WeightsDigest] = true
			digests[c.Plan.Fold] = append(digests[c.Plan.Fold], c.Report.WeightsDigest)
		}
		if held != rows || len(runs) != folds || len(seen) != folds {
			t.Errorf("job %d: %d runs, %d different, hold out %d rows", i, len(runs), len(seen), held)
		}
	}
	for i, runs := range search(other) {
		for _, c := range runs {
			if want := digests[c.Plan.Fold][1]; c.Report.WeightsDigest != want {
				t.Errorf("job %d, fold %+v: digest %s alone, %s beside another job", i, c.Plan.Fold, c.Report.WeightsDigest, want)
			}
		}
	}
}
