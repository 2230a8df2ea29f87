package replay

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Numbers of blocks of trees.
const (
	blocksOfTrees   = 22 // of a candidate
	blocksOfLarger  = 30 // with larger trees
	blocksOfOpening = 3  // that an opening must be better than: it takes about as long
)

// clearly is the factor below which a loss is clearly lower: a smaller difference may be chance.
const clearly = 0.995

// Trees are made larger if the loss falls clearly in the last blocks, and there are enough rows for each leaf: with fewer, the
// loss stays the same or rises.
const (
	lastBlocks = 5
	leafRows   = 200
)

// leastHeldOut is the minimum number of held-out rows for a choice: the loss of fewer is not significant. With fewer than leastRows
// there is no choice among stages for tables, however many are held out: trees fit so few rows entirely, so that the loss
// falls to the last of the largest blocks.
const (
	leastHeldOut = 50
	leastRows    = 500
)

// With few rows the holdout is larger, since a choice by a tenth would be random.
const (
	enoughHeldOut = 1000
	mostHeldOut   = 0.25
)

// leastImage is the minimum height and width of images for patches.
const leastImage = 16

// candidatesOf returns the candidates for the stages of a job: those that it lists, or what suits its examples. Of tables these
// are the columns alone, trees, and trees after an opening, or only the opening if too few rows can be held out.
func (c *chooser) candidatesOf(ctx context.Context, job topics.Job) ([]candidate, error) {
	if len(job.Stages) > 0 {
		return []candidate{listed(job)}, nil
	}
	first, err := c.look(ctx, job)
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
	few := c.rows > 0 && (c.rows < leastRows || float64(c.rows)*heldOut(job, 0) < leastHeldOut)
	if opening := stages.Opening(); few && len(opening) > 0 {
		return []candidate{{opening[0], []schemas.Stage{stageOf(job, opening[0])}, standard, 1, 0}}, nil
	}
	list := suiting(job, stages.Tables, standard)
	for _, c := range list {
		if !stages.Grown(c.stages[0].Features) {
			continue
		}
		for _, kind := range stages.Opening() {
			list = append(list, candidate{kind + " and " + c.name, append([]schemas.Stage{stageOf(job, kind)}, c.stages...), ranks, 2, 1})
		}
	}
	return list, nil
}

// heldOut returns the holdout fraction for choosing the stages of a job, given its number of rows. If it is not
// configured, it is [stages.DefaultHoldout], or large enough for enoughHeldOut rows, but at most mostHeldOut.
func heldOut(job topics.Job, rows int64) float64 {
	if job.Examples.Holdout > 0 || rows <= 0 {
		return cmp.Or(job.Examples.Holdout, stages.DefaultHoldout)
	}
	return max(stages.DefaultHoldout, min(mostHeldOut, float64(enoughHeldOut)/float64(rows)))
}

// suiting returns a candidate for each suitable kind of features: one stage, or several of trees.
func suiting(job topics.Job, e stages.Examples, prepare schemas.Prepare) (list []candidate) {
	for _, kind := range stages.Suiting(e) {
		c := candidate{kind, []schemas.Stage{stageOf(job, kind)}, prepare, 1, 0}
		if stages.Grown(c.stages[0].Features) {
			c.stages = slices.Repeat(c.stages, blocksOfTrees)
		}
		list = append(list, c)
	}
	return list
}

// listed returns the stages of a job as a candidate, whose last stages may be dropped by its stop rule.
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

// heldOutLoss is the loss of held-out rows after a stage, with scores divided by a temperature.
type heldOutLoss struct{ loss, temperature float64 }

// lossesOf returns the loss after each stage of a list, from the report of a run, whose first member has these stages; NaN
// without held-out rows. With temper it is the lowest over all temperatures after stages that have measured it, unless the
// list sets a temperature. Blocks of trees become overconfident long before their errors rise: without temperatures, few
// blocks have the lowest loss.
func lossesOf(report *schemas.Report, list []schemas.Stage, temper bool) []heldOutLoss {
	losses := make([]heldOutLoss, len(list))
	for t := range losses {
		losses[t] = heldOutLoss{math.NaN(), 1}
		if t >= len(report.Stages) {
			continue
		}
		switch r := report.Stages[t]; {
		case temper && r.Tempered != nil && list[t].Temperature == 0:
			losses[t] = heldOutLoss{r.Tempered.HoldoutLoss, r.Tempered.Temperature}
		case r.HoldoutLoss != nil:
			losses[t].loss = *r.HoldoutLoss
		}
	}
	return losses
}

// lowest returns the stage with the lowest loss, from stage least on; −1 if no stage has a loss.
func lowest(losses []heldOutLoss, least int) int {
	at, lowest := -1, math.Inf(1)
	for t, l := range losses {
		if t+1 >= least && l.loss < lowest {
			at, lowest = t, l.loss
		}
	}
	return at
}

// lastNear returns the last tree stage after which the loss is nearly the lowest, which it is after stage at; at, if that
// has no trees.
func lastNear(losses []heldOutLoss, list []schemas.Stage, at int) int {
	most := nearlyLowest * losses[at].loss
	for last := len(losses) - 1; last > at && stages.Grown(list[at].Features); last-- {
		if losses[last].loss <= most && stages.Grown(list[last].Features) {
			return last
		}
	}
	return at
}
