package choice

import (
	"cmp"
	"context"
	"slices"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// blocksOfTrees is how many blocks of trees are tried: on the six tables that were measured, the loss of held-out rows is lowest after 9 to
// 30.
const blocksOfTrees = 30

// leastHeldOut is how many held-out rows it takes to choose by them. The loss of fewer says little: of 150 rows, 15 are held out, and each
// is 7 % of an error.
const leastHeldOut = 50

// Of few rows more are held out, as a choice by a tenth is chance: of 2,397 rows of chess, a tenth chose six stages that made 1.5 % errors,
// and a quarter 14 that made 0.3 %.
const (
	enoughHeldOut = 1000
	mostHeldOut   = 0.25
)

// leastImage is the least height and width of images that are worth patches.
const leastImage = 16

// candidatesOf returns the stages that a job may have: those that it lists, or, by what its examples are, for tables trees, trees after
// Fourier features, and the columns alone, or if too few of the rows can be held out Fourier features alone; for images patches; for sparse
// rows their columns; for other rows Fourier features. rows is how many training rows there are; 0 if that is not known.
func candidatesOf(ctx context.Context, p *topics.Pipeline, job topics.Job, rows int64) ([]candidate, error) {
	if len(job.Stages) > 0 {
		return []candidate{listed(job)}, nil
	}
	first, err := planning.LookAt(ctx, p, job)
	if err != nil {
		return nil, err
	}
	switch {
	case first.Sparse:
		return suiting(job, stages.SparseRows, job.Prepare), nil
	case first.Image.Height() >= leastImage && first.Image.Width() >= leastImage:
		return suiting(job, stages.Images, job.Prepare), nil
	case !first.Named:
		return suiting(job, stages.Vectors, job.Prepare), nil
	}
	standard, ranks := job.Prepare, job.Prepare
	if job.Prepare.Scale == prepare.ScaleAuto {
		standard.Scale = prepare.ScaleStandard
		if ranks.Scale = prepare.ScaleRanks; job.Prepare.PCA > 0 {
			ranks.Scale = prepare.ScaleStandard
		}
	}
	if opening := stages.Opening(); rows > 0 && float64(rows)*heldOut(job, 0) < leastHeldOut && len(opening) > 0 {
		return []candidate{{opening[0], []schemas.Stage{stageOf(job, opening[0])}, standard, 1}}, nil
	}
	list := suiting(job, stages.Tables, standard)
	for _, c := range list {
		if !stages.Grown(c.stages[0].Features) {
			continue
		}
		for _, kind := range stages.Opening() {
			list = append(list, candidate{kind + " and " + c.name, append([]schemas.Stage{stageOf(job, kind)}, c.stages...), ranks, 2})
		}
	}
	return list, nil
}

// heldOut returns which fraction of the rows of a job, so many, is held out to choose its stages by. If nobody says it, it is
// [stages.DefaultHoldout], or as much as makes enoughHeldOut rows, but no more than mostHeldOut.
func heldOut(job topics.Job, rows int64) float64 {
	if job.Examples.Holdout > 0 || rows <= 0 {
		return cmp.Or(job.Examples.Holdout, stages.DefaultHoldout)
	}
	return max(stages.DefaultHoldout, min(mostHeldOut, float64(enoughHeldOut)/float64(rows)))
}

// suiting returns a candidate for each kind of features that suits examples: one stage, or several of trees.
func suiting(job topics.Job, e stages.Examples, prepare schemas.Prepare) (list []candidate) {
	for _, kind := range stages.Suiting(e) {
		c := candidate{kind, []schemas.Stage{stageOf(job, kind)}, prepare, 1}
		if stages.Grown(c.stages[0].Features) {
			c.stages = slices.Repeat(c.stages, blocksOfTrees)
		}
		list = append(list, c)
	}
	return list
}

// listed returns the stages of a job, of which the last ones, whose stop rule ends them, may be left out.
func listed(job topics.Job) candidate {
	c := candidate{name: "those of the configuration", prepare: job.Prepare, least: 1}
	for t, s := range job.Stages {
		if endsStages(s) {
			s.Stop = nil
		} else {
			c.least = t + 1
		}
		c.stages = append(c.stages, s)
	}
	return c
}

// stageOf returns a stage of a kind with the defaults of the job's task.
func stageOf(job topics.Job, kind string) schemas.Stage {
	s := solve.Defaults()
	if s.Features = stages.DefaultsOf(kind); stages.Grown(s.Features) {
		solve.GrownDefaults(&s)
	}
	if task := job.Examples.Task(); task != examples.OneLabel {
		s.Link = schemas.Link(model.LinksOf(task)[0])
	}
	return s
}
