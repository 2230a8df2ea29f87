package pipeline

import (
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
