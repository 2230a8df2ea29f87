package protocol

import (
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Chain is the accepted records of a run, in order: the survey's result, then weights. Of the records that name the same parent,
// the first complete one by offset is accepted. Workers and solvers fold the same chain from the same topic. [NewChain] makes
// chains. A chain belongs to one goroutine.
type Chain struct {
	Plan *schemas.Plan
	Run  string      // the run's id
	Root wire.Digest // the plan's digest, which is the parent of the first record
	// Survey is the survey's result, and Prepared the preparation in it. They are nil until it is accepted.
	Survey   *statistics.SurveyResult
	Prepared *prepare.Preparation

	codec     codec.Codec
	rec       event.Recorder
	weights   []*schemas.Weights
	digests   []wire.Digest                         // of the survey's result, then of weights
	early     map[wire.Digest]*wire.Record[float32] // by the parent that they wait for, the first
	collector wire.Collector[float32]
	next      int64                 // offset after what was read of the weights topic
	initial   map[int][]float32     // W that stages begin at in a warm start
	extended  map[int][]float32     // of an update on sparse rows: see Initial
	ridges    map[int]schemas.Ridge // that these were fitted with

	outline bool         // no weights are kept
	earlier *model.Model // that the run starts from; nil: none
	drawn   *model.Stage // the stage that was asked for last: its random features are drawn once
	drawnAt int          // the number of that stage
}

// NewChain returns the chain of a run before any record is accepted. rec is told which records are skipped.
func NewChain(plan *schemas.Plan, codec codec.Codec, rec event.Recorder) *Chain {
	return newChain(plan, plan.Digest(), codec, rec)
}

func newChain(plan *schemas.Plan, root wire.Digest, codec codec.Codec, rec event.Recorder) *Chain {
	return &Chain{
		Plan: plan, Root: root, Run: root.Short(), codec: codec, rec: rec,
		early: map[wire.Digest]*wire.Record[float32]{}, initial: map[int][]float32{}, ridges: map[int]schemas.Ridge{},
	}
}

// NewOutline returns the chain of a run, without the weights: for those who follow the run.
func NewOutline(plan *schemas.Plan, codec codec.Codec) *Chain {
	return NewChain(plan, codec, event.Ignore{}).outlined()
}

// outlined makes a chain without records keep no weights.
func (c *Chain) outlined() *Chain {
	c.outline = true
	return c
}

// Add takes the next message of the weights topic, and reports whether the chain has grown. It skips damaged records. An
// error says that an accepted record does not fit the plan: the run can't go on.
func (c *Chain) Add(m wire.Message) (grown bool, err error) {
	if kind := m.Kind(); m.Run() != c.Run || kind != statistics.KindPrepare && kind != schemas.KindWeights && kind != schemas.KindStructure {
		return false, nil
	}
	if c.Has(m.Digest()) { // another copy, which need not be decoded
		return false, nil
	}
	r, err := c.codec.CollectSingle(&c.collector, m)
	if err != nil {
		event.Skip(c.rec, "weights", err) // the solver that wrote it, or another one, will write it again
		return false, nil
	}
	if r == nil {
		return false, nil
	}
	// The parent of the survey's result is the plan. The parent of weights is another record.
	if (r.Kind == statistics.KindPrepare) != (r.Parent == c.Root) {
		event.Skip(c.rec, "weights", fmt.Errorf("%w: the %v has a parent of another kind", wire.ErrDamaged, r.Identity))
		return false, nil
	}
	// Compaction keeps the later copy of a record that was written twice, and it may stand behind records that were computed
	// from the first. Those wait for their parent.
	if r.Parent != c.Head() {
		if c.early[r.Parent] == nil && r.Parent != c.Root && !slices.Contains(c.digests, r.Parent) {
			c.early[r.Parent] = r
		}
		return false, nil
	}
	digest := m.Digest() // the collector has checked it
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
func (c *Chain) accept(r *wire.Record[float32]) error {
	if r.Kind != statistics.KindPrepare {
		w, err := schemas.WeightsOf(r)
		if err != nil {
			return err
		}
		if c.outline {
			w.Tensors = nil
		}
		c.weights = append(c.weights, w)
		return nil
	}
	survey, err := c.codec.SurveyResult(r)
	if err != nil {
		return err
	}
	prepared, err := prepare.New(c.Plan.Prepare, survey.Preparation)
	if err != nil {
		return fmt.Errorf("read the survey's result: %w", err)
	}
	c.Survey, c.Prepared = survey, prepared
	return nil
}

// Earlier returns the version that the run starts from; nil if it starts from none.
func (c *Chain) Earlier() *model.Model { return c.earlier }

// Head returns the digest of the newest accepted record: the parent of the next.
func (c *Chain) Head() wire.Digest {
	if len(c.digests) == 0 {
		return c.Root
	}
	return c.digests[len(c.digests)-1]
}

// Has reports whether a record is accepted, given its digest. A chain has its root.
func (c *Chain) Has(digest wire.Digest) bool {
	return digest == c.Root || slices.Contains(c.digests, digest)
}

// SurveyDigest returns the digest of the survey's result, which must be accepted.
func (c *Chain) SurveyDigest() wire.Digest { return c.digests[0] }

// digest returns the digest of weights[i].
func (c *Chain) digest(i int) wire.Digest { return c.digests[i+1] }

// NoStage stands for a stage that does not exist.
const NoStage = -1

// Final returns the weights that end a stage, and their digest; nil and "" before they are accepted.
func (c *Chain) Final(stage int) (*schemas.Weights, wire.Digest) {
	for i, w := range c.weights {
		if w.Stage == stage && w.Final != nil {
			return w, c.digest(i)
		}
	}
	return nil, ""
}

// Stage returns a stage of the plan, given its number. The survey's result must be accepted. The error is that of
// [model.NewStage].
func (c *Chain) Stage(stage int) (*model.Stage, error) {
	if c.Plan.Update() != nil && c.earlier != nil && !c.Plan.Update().Sparse {
		return c.earlier.Stage(stage), nil
	}
	if c.drawn != nil && c.drawnAt == stage {
		return c.drawn, nil
	}
	s, err := model.NewStage(c.Plan, stage, c.Prepared)
	if err != nil {
		return nil, err
	}
	if c.Grows(stage) {
		w := c.structure(stage)
		if w == nil || w.Tensors == nil { // nobody needs more than its shape yet
			return s, nil
		}
		if s, err = s.Grow(w.Tensors); err != nil {
			return nil, fmt.Errorf("read %v: %w", w.Identity, err)
		}
	}
	c.drawn, c.drawnAt = s, stage
	return s, nil
}

// weightsOf returns the accepted weights of a stage, in the order of their visits.
func (c *Chain) weightsOf(stage int) (weights []*schemas.Weights) {
	for _, w := range c.weights {
		if w.Stage == stage {
			weights = append(weights, w)
		}
	}
	return weights
}

// Ridge returns the ridge that a solver has chosen for a stage, as its accepted weights have it. It returns false before that, and if
// the plan has the ridge.
func (c *Chain) Ridge(stage int) (schemas.Ridge, bool) {
	for _, w := range c.weights {
		if w.Stage == stage && w.Ridge != 0 {
			return w.Ridge, true
		}
	}
	return 0, false
}

// InitialRidge returns the ridge that the weights were fitted with which a stage begins at. It returns false without a warm start.
func (c *Chain) InitialRidge(stage int) (schemas.Ridge, bool) {
	ridge, ok := c.ridges[stage]
	return ridge, ok
}

// Fitted returns the weights that a stage has now. See [model.Stage.Fitted].
func (c *Chain) Fitted(s *model.Stage, stage int) (*sink.Fitted, error) {
	return s.Fitted(c.Initial(stage), c.weightsOf(stage))
}

// Changes are the newest weights of a stage that is fitted in blocks: whole ones, and what has changed since.
type Changes struct {
	Whole *sink.Fitted       // of the visit that is named by Since
	Since wire.Digest        // the record that this visit was made with: see [Visit]
	By    []*schemas.Weights // the records after it, in order
	Names []wire.Digest      // of these
}

// Changes returns the weights that a stage which is fitted in blocks has now.
func (c *Chain) Changes(s *model.Stage, stage int) (changes Changes, err error) {
	var whole []*schemas.Weights
	for i, w := range c.weights {
		switch _, all := w.Tensors.Find(statistics.TensorW); {
		case w.Stage == stage-1 && w.Final != nil:
			changes.Since = c.digest(i)
		case w.Stage != stage:
		case all:
			whole, changes = []*schemas.Weights{w}, Changes{Since: c.digest(i)}
		default:
			changes.By, changes.Names = append(changes.By, w), append(changes.Names, c.digest(i))
		}
	}
	if stage == 0 && changes.Since == "" {
		changes.Since = c.SurveyDigest()
	}
	changes.Whole, err = s.Fitted(c.initial[stage], whole)
	return changes, err
}

// Surveyed returns the event that says what the survey found. The survey's result must be accepted.
func (c *Chain) Surveyed(elapsed time.Duration) event.Surveyed {
	e := event.Surveyed{
		Rows: map[examples.Split]int64{}, Features: c.Prepared.Width(), Inputs: c.Prepared.Inputs(),
		Classes: c.Prepared.Labels.Len(), Task: c.Plan.Task(), Sparse: c.Prepared.Factors != nil, PassedOver: c.Survey.PassedOver,
		Elapsed: elapsed,
	}
	for split, n := range c.Survey.Rows {
		e.Rows[examples.Split(split)] = n
	}
	return e
}
