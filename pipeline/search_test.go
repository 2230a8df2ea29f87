package pipeline

import (
	"fmt"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
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
