package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
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

// GramVisit returns the visit that the Gram matrices of a stage of an update belong to, which depend on no weights.
func (c *Chain) GramVisit(stage int) Visit { return Visit{Stage: stage, Parent: c.SurveyDigest()} }

// digest returns the digest of weights[i].
func (c *Chain) digest(i int) wire.Digest { return c.digests[i+1] }

// Visit is a visit that is due, or was.
type Visit struct {
	Stage  int         // schemas.Survey, 0, 1, …
	Number int         // of the visit in its stage: 0, 1, …
	Parent wire.Digest // of the record that its statistics are computed from
}

// NoStage stands for a stage that does not exist.
const NoStage = -1

// Due returns what a worker must do after the records that are accepted. First it publishes and seals the residuals of stage
// seal, unless that is [NoStage]. Then it makes visit v. When no visit is left, v.Stage is the number of stages.
func (c *Chain) Due() (v Visit, seal int) {
	v.Parent = c.Head()
	switch {
	case c.Survey == nil:
		v.Stage = wire.Survey
		return v, NoStage
	case len(c.weights) == 0:
		v.Number = c.first(0)
		return v, NoStage
	}
	last := c.weights[len(c.weights)-1]
	if last.Final != nil {
		v.Stage, v.Number = last.Stage+1, c.first(last.Stage+1)
		return v, last.Stage
	}
	v.Stage, v.Number = last.Stage, last.Visit
	return v, NoStage
}

// Grows reports whether a stage begins with a visit that its trees are grown from. The stages of an update have the trees of the
// version before.
func (c *Chain) Grows(stage int) bool {
	return stage < len(c.Plan.Stages) && c.Plan.Update() == nil && stages.Grown(c.Plan.Stages[stage].Features)
}

// first returns the number of the first visit to a stage.
func (c *Chain) first(stage int) int {
	if c.Grows(stage) {
		return wire.Growth
	}
	return 0
}

// structure returns the record of the trees of a stage; nil if it has none, or none yet. An update has those of the version before it in a
// record of its own, as its version may be read when the version before is gone.
func (c *Chain) structure(stage int) *schemas.Weights {
	if c.Plan.Update() != nil && c.earlier != nil {
		if tensors := c.earlier.Stage(stage).Features.Structure(); tensors != nil {
			id := wire.Identity{Kind: schemas.KindStructure, Run: c.Run, Stage: stage, Parent: c.SurveyDigest()}
			return &schemas.Weights{Identity: id, Tensors: tensors}
		}
		return nil
	}
	for _, w := range c.weights {
		if w.Stage == stage && w.Kind == schemas.KindStructure {
			return w
		}
	}
	return nil
}

// Began reports whether any weights are accepted.
func (c *Chain) Began() bool { return len(c.weights) > 0 }

// GrowthVisit returns the visit that the trees of a stage are grown from, and whether it is due: whether the stage has trees that are
// not accepted yet. What the stage begins at must be accepted.
func (c *Chain) GrowthVisit(stage int) (v Visit, due bool) {
	if !c.Grows(stage) || c.structure(stage) != nil {
		return v, false
	}
	return Visit{stage, wire.Growth, c.Head()}, true
}

// Visits returns the visits of a stage so far, in order, without that of [Chain.GrowthVisit]. The last may be the one that is due.
func (c *Chain) Visits(stage int) (visits []Visit) {
	if stage == wire.Survey {
		return []Visit{{stage, 0, c.Root}}
	}
	if stage == 0 && c.Survey != nil && !c.Grows(stage) {
		visits = append(visits, Visit{stage, 0, c.SurveyDigest()})
	}
	for i, w := range c.weights {
		switch {
		case w.Stage == stage-1 && w.Final != nil && !c.Grows(stage):
			visits = append(visits, Visit{stage, 0, c.digest(i)})
		case w.Stage == stage && w.Final == nil:
			visits = append(visits, Visit{stage, w.Visit, c.digest(i)})
		}
	}
	return visits
}

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

// WeightsFor returns the weights that a visit is made with, and the W (p × k) that its stage begins at; both are nil for the
// visit that begins a stage without a warm start.
func (c *Chain) WeightsFor(v Visit) (w *schemas.Weights, initial []float32) {
	for _, w := range c.weights {
		if w.Stage == v.Stage && w.Visit == v.Number && w.Kind == schemas.KindWeights {
			return w, nil
		}
	}
	return nil, c.Initial(v.Stage)
}

// Initial returns the W (p × k) that a stage begins at in a warm start; nil: zeros. In an update on sparse rows the version before may lack
// some inputs.
func (c *Chain) Initial(stage int) []float32 {
	u := c.Plan.Update()
	if u == nil || !u.Sparse || c.earlier == nil || c.Prepared == nil || c.initial[stage] == nil {
		return c.initial[stage]
	}
	if c.extended == nil {
		c.extended = map[int][]float32{}
	}
	if c.extended[stage] == nil {
		c.extended[stage] = c.earlier.WeightsOn(stage, c.Prepared)
	}
	return c.extended[stage]
}

// Forget frees the memory of the weights that nobody needs any more who has come to a visit: those of visits before it, except those that
// end a stage, those of links that are learnt, and those that the visit's weights are a change of.
func (c *Chain) Forget(v Visit) {
	whole := 0
	for _, w := range c.weights {
		if _, all := w.Tensors.Find(statistics.TensorW); all && w.Stage == v.Stage && w.Visit <= v.Number {
			whole = w.Visit
		}
	}
	for i, w := range c.weights {
		if (w.Stage < v.Stage || w.Stage == v.Stage && w.Visit < whole) && w.Final == nil && w.Tensors != nil &&
			w.Kind == schemas.KindWeights && !link.Named(c.Plan.Stages[w.Stage].Link).Learnt {
			bare := *w // others may still use the weights
			bare.Tensors = nil
			c.weights[i] = &bare
		}
	}
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

// Passes returns how the passes of a stage went, in order, as its accepted weights say.
func (c *Chain) Passes(stage int) (passes []schemas.PassReport) {
	for _, w := range c.weightsOf(stage) {
		if w.Pass != nil {
			passes = append(passes, *w.Pass)
		}
	}
	return passes
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

// Read adds what the weights topic has of the run now, and returns the offset at which a subscription goes on. The
// error is an *[ExpiredError], beside that offset, if the topic has lost the records that the others follow from.
func (c *Chain) Read(ctx context.Context, client *Client) (next int64, err error) {
	first, next, err := c.read(ctx, client)
	if err == nil && first > c.Plan.Since.Weights && (c.Survey == nil || len(c.early) > 0) {
		err = &ExpiredError{c.Run, client.Topics.Weights, first}
	}
	return next, err
}

// read is Read, and returns where the topic begins.
func (c *Chain) read(ctx context.Context, client *Client) (first, end int64, err error) {
	topic := client.Topics.Weights
	if first, end, err = client.Log.Bounds(ctx, topic, 0); err != nil {
		return 0, 0, err
	}
	from := max(first, c.Plan.Since.Weights)
	if from > end { // the topic was made anew since the plan was
		from = first
	}
	err = client.Between(ctx, topic, 0, from, end, func(m Message) error {
		_, err := c.Add(m.Message)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read weights of run %s: %w", c.Run, err)
	}
	return first, end, nil
}

// Differs reports whether the weights topic has another chain of the run than this one: whether the newest record that
// this one has accepted is not in it. A topic that has more records of the same chain does not differ, nor does one
// whose first records have expired.
func (c *Chain) Differs(ctx context.Context, client *Client) (bool, error) {
	there := newChain(c.Plan, c.Root, c.codec, event.Ignore{}).outlined()
	_, err := there.Read(ctx, client)
	if errors.As(err, new(*ExpiredError)) {
		return false, nil
	}
	return err == nil && !there.Has(c.Head()), err
}

// Renew compares the chain with the weights topic, whose messages were read long ago. After an unclean election of a
// leader, accepted records may be gone, and those that others have written since may have offsets that were read
// already. Whoever has waited for long without a message asks. If the topic differs, he begins again from what is
// there; otherwise the chain now has what the topic has. The error is an *[ExpiredError] if records have expired that
// the chain has not accepted.
func (c *Chain) Renew(ctx context.Context, client *Client) (differs bool, err error) {
	if differs, err = c.Differs(ctx, client); err != nil || differs {
		return differs, err
	}
	_, err = c.Read(ctx, client)
	return false, err
}

// Warm makes the stages begin at the weights of the version that the plan names, and returns that version. It returns nil if
// the plan names none.
func (c *Chain) Warm(ctx context.Context, client *Client) (*model.Model, error) {
	if c.Plan.Warm == nil {
		return nil, nil
	}
	earlier, err := client.ModelOf(ctx, c.Plan.Warm)
	if errors.As(err, new(*NoVersionError)) {
		return nil, fmt.Errorf("the version of run %s, which this run starts from, is no longer on %s", c.Plan.Warm.Run, client.Topics.Versions)
	}
	if err != nil {
		return nil, err
	}
	manifest := earlier.Manifest
	if digest := manifest.Digest(); digest != c.Plan.Warm.Manifest {
		return nil, fmt.Errorf("version %d has manifest %s, the plan names %s", manifest.Version, digest.Short(), c.Plan.Warm.Manifest.Short())
	}
	for t := range min(len(c.Plan.Stages), len(manifest.Plan.Stages)) {
		if w := earlier.Weights(t); w != nil && !c.Grows(t) { // the weights of other trees are no beginning
			c.initial[t], c.ridges[t] = w, manifest.Ridge(t)
		}
	}
	c.earlier = earlier
	return earlier, nil
}
