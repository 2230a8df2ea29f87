package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// chain is the accepted records of a run, in order: the survey's result, then
// weights. Of all records that name the same predecessor the first complete one by
// offset counts. Workers and solvers fold the same chain from the same topic.
type chain struct {
	plan      *schemas.Plan
	root      schemas.Digest // of the plan: the parent of the first record
	run       string
	codec     codec
	rec       Recorder
	survey    *schemas.SurveyResult
	weights   []*schemas.Weights
	digests   []schemas.Digest                            // of the survey's result, then of weights
	early     map[schemas.Digest]*schemas.Record[float32] // by the parent that is not accepted yet, the first
	collector schemas.Collector[float32]
	initial   map[int][]float32 // W that stages begin at in a warm start

	prepared *stages.Preparation // once the survey's result is accepted
	drawn    *stages.Map         // of the stage that was asked for last
	drawnOf  int
}

func newChain(plan *schemas.Plan, c codec, rec Recorder) *chain {
	root := plan.Digest()
	return &chain{plan: plan, root: root, run: root.Short(), codec: c, rec: rec, early: map[schemas.Digest]*schemas.Record[float32]{}, initial: map[int][]float32{}}
}

// add takes the next message of the weights topic and tells whether the chain
// has grown.
func (c *chain) add(m schemas.Message) (bool, error) {
	if m.Get("run") != c.run || m.Kind() != schemas.KindPrepare && m.Kind() != schemas.KindWeights {
		return false, nil
	}
	r, err := c.codec.collectSingle(&c.collector, m)
	if err != nil {
		// a damaged record is none: whoever made it, or somebody else, makes it again
		passOver(c.rec, "weights", err)
		return false, nil
	}
	if r == nil {
		return false, nil
	}
	// A record that was written twice stands where compaction has left it, which
	// may be behind those that were computed from it.
	if r.Parent != c.head() {
		if c.early[r.Parent] == nil && r.Parent != c.root && !slices.Contains(c.digests, r.Parent) {
			c.early[r.Parent] = r
		}
		return false, nil
	}
	digest := schemas.Digest(m.Get("digest")) // the collector has made sure of it
	for r != nil {
		delete(c.early, r.Parent)
		if err := c.accept(r); err != nil {
			return false, err
		}
		c.digests = append(c.digests, digest)
		if r = c.early[digest]; r != nil {
			digest = r.Digest()
		}
	}
	return true, nil
}

// accept adds the next record.
func (c *chain) accept(r *schemas.Record[float32]) (err error) {
	if r.Kind == schemas.KindWeights {
		w, err := schemas.WeightsOf(r)
		c.weights = append(c.weights, w)
		return err
	}
	if c.survey, err = schemas.SurveyResultOf(r); err != nil {
		return err
	}
	if c.prepared, err = stages.NewPreparation(c.plan.Prepare, c.survey.Preparation); err != nil {
		return fmt.Errorf("read the survey's result: %w", err)
	}
	return nil
}

// head is the digest of the newest accepted record: the parent of what is next.
func (c *chain) head() schemas.Digest {
	if len(c.digests) == 0 {
		return c.root
	}
	return c.digests[len(c.digests)-1]
}

// surveyDigest is the digest of the survey's result, which must be there.
func (c *chain) surveyDigest() schemas.Digest { return c.digests[0] }

// digest of weights[i].
func (c *chain) digest(i int) schemas.Digest { return c.digests[i+1] }

// visit is a visit that is due, or was: what it is for, and the record that its
// statistics are computed from.
type visit struct {
	stage, number int
	parent        schemas.Digest
}

// due is what a worker has to do, given what is accepted. sealing is set if the
// residuals of stage `sealed` are to be published before; the visit's stage is
// the number of stages when there is nothing left to visit.
func (c *chain) due() (v visit, sealed int, sealing bool) {
	v.parent = c.head()
	if c.survey == nil {
		v.stage = schemas.Survey
		return v, 0, false
	}
	if len(c.weights) == 0 {
		return v, 0, false
	}
	last := c.weights[len(c.weights)-1]
	if last.Final != nil {
		v.stage = last.Stage + 1
		return v, last.Stage, true
	}
	v.stage, v.number = last.Stage, last.Visit
	return v, 0, false
}

// visits are all visits of a stage up to the one that is due.
func (c *chain) visits(stage int) (visits []visit) {
	if stage == schemas.Survey {
		return []visit{{stage, 0, c.root}}
	}
	if stage == 0 && c.survey != nil {
		visits = append(visits, visit{stage, 0, c.surveyDigest()})
	}
	for i, w := range c.weights {
		switch {
		case w.Stage == stage-1 && w.Final != nil:
			visits = append(visits, visit{stage, 0, c.digest(i)})
		case w.Stage == stage && w.Final == nil:
			visits = append(visits, visit{stage, w.Visit, c.digest(i)})
		}
	}
	return visits
}

// final is the record that ends a stage, and its digest; nil before.
func (c *chain) final(stage int) (*schemas.Weights, schemas.Digest) {
	for i, w := range c.weights {
		if w.Stage == stage && w.Final != nil {
			return w, c.digest(i)
		}
	}
	return nil, ""
}

// shape of a stage's block.
func (c *chain) shape(m *stages.Map) solve.Shape {
	return solve.Shape{Columns: m.Size(), Penalised: m.Penalised(), Classes: c.prepared.Labels.Len()}
}

// surveyed is what is told of the survey's result.
func (c *chain) surveyed(elapsed time.Duration) Surveyed {
	e := Surveyed{Rows: map[schemas.Split]int64{}, Features: c.prepared.Width(), Inputs: c.prepared.Inputs(), Classes: c.prepared.Labels.Len(), Elapsed: elapsed}
	for split, n := range c.survey.Rows {
		e.Rows[schemas.Split(split)] = n
	}
	return e
}

// featureMap is a stage's map, the same while the same is asked for again, so that
// it is drawn once. The survey's result has to be there.
func (c *chain) featureMap(stage int) (*stages.Map, error) {
	if c.drawn != nil && c.drawnOf == stage {
		return c.drawn, nil
	}
	s, scores := c.plan.Stages[stage], 0
	if s.Scores {
		scores = c.prepared.Labels.Len()
	}
	m, err := stages.NewMap(s.Features, c.plan.Seed, stage, c.prepared, scores, c.plan.Intercept && stage == 0)
	if err != nil {
		return nil, fmt.Errorf("draw stage %d: %w", stage, err)
	}
	c.drawn, c.drawnOf = m, stage
	return m, nil
}

// step is the published step that visit v of a stage is made with; zero for
// the visit that begins a cold stage.
func (c *chain) step(stage, v int, shape solve.Shape) (solve.Step, error) {
	for _, r := range c.weights {
		if r.Stage == stage && r.Visit == v {
			return solve.StepOf(r.Tensors, shape)
		}
	}
	return solve.Step{W: c.initial[stage]}, nil
}

// fitted is what a stage's weights are now: the newest, or the final ones.
func (c *chain) fitted(stage int, shape solve.Shape) (*sink.Fitted, error) {
	f, learnt := &sink.Fitted{}, link.Named(c.plan.Stages[stage].Link).Learnt
	dense := func(rows int, data []float32) kernel.Dense {
		return kernel.Dense{Rows: rows, Cols: shape.Classes, Data: data}
	}
	weights := func(data []float32) kernel.Weights { return kernel.NewWeights(dense(shape.Columns, data)) }
	if w := c.initial[stage]; w != nil && !learnt {
		f.W = weights(w)
	}
	for _, r := range c.weights {
		if r.Stage != stage {
			continue
		}
		step, err := solve.StepOf(r.Tensors, shape)
		if err != nil {
			return nil, fmt.Errorf("read %v: %w", r.Identity, err)
		}
		if !learnt {
			f.W = weights(step.W)
			continue
		}
		if step.W != nil {
			f.Passes = append(f.Passes, sink.CalibratedPass{W: weights(step.W)})
		}
		if step.Calibration != nil && len(f.Passes) > 0 {
			f.Passes[len(f.Passes)-1].Calibration = dense(3*shape.Classes, step.Calibration)
		}
		if r.Final != nil {
			if r.Final.Passes < 0 || r.Final.Passes > len(f.Passes) {
				return nil, fmt.Errorf("read %v: %w: %d passes of %d", r.Identity, schemas.ErrDamaged, r.Final.Passes, len(f.Passes))
			}
			f.Passes = f.Passes[:r.Final.Passes]
		}
	}
	return f, nil
}

// read folds what the weights topic has of the run now, and answers with the
// offset to follow it from.
func (c *chain) read(ctx context.Context, d desk) (next int64, err error) {
	first, end, err := d.log.Bounds(ctx, d.weights, 0)
	if err != nil {
		return 0, err
	}
	err = d.between(ctx, d.weights, 0, min(max(first, c.plan.Since.Weights), end), end, func(r entry) error {
		_, err := c.add(r.Message)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read weights of run %s: %w", c.run, err)
	}
	return end, nil
}

// warm takes from the version that the plan starts from where its stages begin.
func (c *chain) warm(ctx context.Context, d desk) (prepared schemas.Tensors[float32], err error) {
	if c.plan.Warm == nil {
		return nil, nil
	}
	m, err := d.version(ctx, c.plan.Warm.Run)
	if err != nil {
		return nil, err
	}
	if digest := schemas.DigestJSON(m); digest != c.plan.Warm.Manifest {
		return nil, fmt.Errorf("version %d has manifest %s, the plan names %s", m.Version, digest.Short(), c.plan.Warm.Manifest.Short())
	}
	earlier := newChain(m.Plan, c.codec, c.rec)
	if _, err := earlier.read(ctx, d); err != nil {
		return nil, err
	}
	if earlier.prepared == nil {
		return nil, fmt.Errorf("version %d: the survey's result is no longer on %s", m.Version, d.weights)
	}
	for t := range min(len(c.plan.Stages), len(m.Plan.Stages)) {
		final, _ := earlier.final(t)
		if final == nil {
			return nil, fmt.Errorf("version %d: the weights of stage %d are no longer on %s", m.Version, t, d.weights)
		}
		if link.Named(c.plan.Stages[t].Link).Learnt { // its state is all of its passes: it begins anew
			continue
		}
		w, ok := final.Tensors.Find(schemas.TensorW)
		if !ok {
			return nil, &schemas.ShapeError{Tensor: schemas.TensorW}
		}
		c.initial[t] = w.Data
	}
	return earlier.survey.Preparation, nil
}
