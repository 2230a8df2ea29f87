package protocol

import (
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Chain is the sequence of accepted records of a run: the survey's result, then weights. Of the records with the same
// parent, the first complete one by offset is accepted. Workers and solvers derive the same chain from the same topic.
// Create chains with [NewChain]. A chain is not safe for concurrent use.
type Chain struct {
	Plan *schemas.Plan
	Run  string      // run id
	Root wire.Digest // the plan's digest, which is the parent of the first record
	// Survey is the survey's result, and Prepared its preparation. They are nil until the survey's result is accepted.
	Survey   *statistics.SurveyResult
	Prepared *prepare.Preparation

	codec     Codec
	rec       event.Recorder
	weights   []*schemas.Weights
	digests   []wire.Digest         // of the survey's result, then of the weights
	early     map[wire.Digest]early // the first record that waits for each parent
	collector wire.Collector[float32]
	next      int64                 // offset after the last message read from the weights topic
	initial   map[int][]float32     // initial W of stages in a warm start
	extended  map[int][]float32     // of an update on sparse rows: see Initial
	ridges    map[int]schemas.Ridge // ridges of the initial weights

	outline bool         // the chain keeps no weights
	earlier *model.Model // version that the run starts from; nil: none
	drawn   *model.Stage // cached stage, so that its random features are drawn only once
	drawnAt int          // number of the cached stage
}

// early is a record that has arrived before its parent.
type early struct {
	record *wire.Record[float32]
	digest wire.Digest
}

// NewChain returns the chain of a run before any record is accepted. Skipped records are reported to rec.
func NewChain(plan *schemas.Plan, codec Codec, rec event.Recorder) *Chain {
	root := plan.Digest()
	return &Chain{
		Plan: plan, Root: root, Run: root.Short(), codec: codec, rec: rec,
		early: map[wire.Digest]early{}, initial: map[int][]float32{}, ridges: map[int]schemas.Ridge{},
	}
}

// NewOutline returns a chain that keeps no weights, for observers of the run.
func NewOutline(plan *schemas.Plan, codec Codec) *Chain {
	c := NewChain(plan, codec, event.Ignore{})
	c.outline = true
	return c
}

// Add applies the next message of the weights topic, and reports whether the chain has grown. It skips damaged records. An
// error means that an accepted record does not fit the plan, and the run can't continue.
func (c *Chain) Add(m wire.Message) (grown bool, err error) {
	if kind := m.Kind(); m.Run() != c.Run || kind != statistics.KindPrepare && kind != schemas.KindWeights && kind != schemas.KindStructure {
		return false, nil
	}
	if c.Has(m.Digest()) { // a duplicate, which need not be decoded
		return false, nil
	}
	r, err := c.codec.CollectSingle(&c.collector, m)
	if err != nil {
		event.Skip(c.rec, "weights", err) // a solver will write it again
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
	// Compaction keeps the later copy of a record that was written twice, which may be behind records computed from the first
	// copy. Those wait for their parent.
	next := early{r, m.Digest()} // the collector has checked the digest
	if r.Parent != c.Head() {
		if c.early[r.Parent].record == nil && r.Parent != c.Root && !slices.Contains(c.digests, r.Parent) {
			c.early[r.Parent] = next
		}
		return false, nil
	}
	for next.record != nil {
		delete(c.early, next.record.Parent)
		if err := c.accept(next.record); err != nil {
			return false, err
		}
		c.digests = append(c.digests, next.digest)
		next = c.early[next.digest]
	}
	return true, nil
}

// accept appends the next record.
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
	survey, err := statistics.SurveyResultOf(r)
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

// Earlier returns the version that the run starts from; nil in a cold start.
func (c *Chain) Earlier() *model.Model { return c.earlier }

// Head returns the digest of the last accepted record, the parent of the next one.
func (c *Chain) Head() wire.Digest {
	if len(c.digests) == 0 {
		return c.Root
	}
	return c.digests[len(c.digests)-1]
}

// Has reports whether the record with the digest is accepted. A chain has its root.
func (c *Chain) Has(digest wire.Digest) bool {
	return digest == c.Root || slices.Contains(c.digests, digest)
}

// SurveyDigest returns the digest of the survey's result, which must be accepted.
func (c *Chain) SurveyDigest() wire.Digest { return c.digests[0] }

// digest returns the digest of weights[i].
func (c *Chain) digest(i int) wire.Digest { return c.digests[i+1] }

// NoStage means no stage.
const NoStage = -1

// Final returns the final weights of a stage and their digest; nil and "" before they are accepted.
func (c *Chain) Final(stage int) (*schemas.Weights, wire.Digest) {
	for i, w := range c.weights {
		if w.Stage == stage && w.Final != nil {
			return w, c.digest(i)
		}
	}
	return nil, ""
}

// Stage returns a stage of the plan. The survey's result must be accepted. The error is that of [model.NewStage].
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
	if c.grows(stage) {
		w := c.structure(stage)
		if w == nil || w.Tensors == nil { // only the shape of the stage is needed so far
			return s, nil
		}
		if s, err = s.Grow(w.Tensors); err != nil {
			return nil, fmt.Errorf("read %v: %w", w.Identity, err)
		}
	}
	c.drawn, c.drawnAt = s, stage
	return s, nil
}

// weightsOf returns the accepted weights of a stage, in visit order.
func (c *Chain) weightsOf(stage int) (weights []*schemas.Weights) {
	for _, w := range c.weights {
		if w.Stage == stage {
			weights = append(weights, w)
		}
	}
	return weights
}

// Ridge returns the ridge that a solver has chosen for a stage, from its accepted weights. It returns false before that,
// and if the plan sets the ridge.
func (c *Chain) Ridge(stage int) (schemas.Ridge, bool) {
	for _, w := range c.weights {
		if w.Stage == stage && w.Ridge != 0 {
			return w.Ridge, true
		}
	}
	return 0, false
}

// InitialRidge returns the ridge of a stage's initial weights. It returns false in a cold start.
func (c *Chain) InitialRidge(stage int) (schemas.Ridge, bool) {
	ridge, ok := c.ridges[stage]
	return ridge, ok
}

// Fitted returns the current weights of a stage. See [model.Stage.Fitted].
func (c *Chain) Fitted(s *model.Stage, stage int) (*sink.Fitted, error) {
	return s.Fitted(c.Initial(stage), c.weightsOf(stage))
}

// FittedFor returns the weights of a stage for a visit, which may be before the due one.
func (c *Chain) FittedFor(s *model.Stage, v Visit) (*sink.Fitted, error) {
	later := func(w *schemas.Weights) bool { return w.Visit > v.Number }
	return s.Fitted(c.Initial(v.Stage), slices.DeleteFunc(c.weightsOf(v.Stage), later))
}

// Changes are the current weights of a stage that is fitted in blocks: full weights, and the changes since.
type Changes struct {
	Whole *sink.Fitted       // full weights, of the visit that Since names
	Since wire.Digest        // record that this visit was made with: see [Visit]
	By    []*schemas.Weights // later records, in order
	Names []wire.Digest      // digests of these records
}

// Changes returns the current weights of a stage that is fitted in blocks.
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

// Surveyed returns the event with the survey's result, which must be accepted.
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
