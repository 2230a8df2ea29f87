package protocol

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
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
	Prepared *stages.Preparation

	mem       memory.Allocator
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
func NewChain(plan *schemas.Plan, mem memory.Allocator, rec event.Recorder) *Chain {
	root := plan.Digest()
	return &Chain{
		Plan: plan, Root: root, Run: root.Short(), mem: mem, rec: rec,
		early: map[wire.Digest]early{}, initial: map[int][]float32{}, ridges: map[int]schemas.Ridge{},
	}
}

// NewOutline returns a chain that keeps no weights, for observers of the run.
func NewOutline(plan *schemas.Plan, mem memory.Allocator) *Chain {
	c := NewChain(plan, mem, nil)
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
	r, err := c.collector.Add(m, c.mem)
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
	// Compaction keeps the later copy of a record that was written twice, which may be after records computed from the first
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
		w, err := wire.Read[schemas.Weights](r)
		if err != nil {
			return err
		}
		if c.outline {
			w.Tensors = nil
		}
		c.weights = append(c.weights, w)
		return nil
	}
	survey, err := wire.Read[statistics.SurveyResult](r)
	if err != nil {
		return err
	}
	prepared, err := stages.NewPreparation(c.Plan.Prepare, survey.Preparation)
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

// Has reports whether the record with the digest is accepted. The root counts as accepted.
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

// Read applies all messages of the run on the weights topic, and returns the offset from which to subscribe. The error is
// an *[ExpiredError], beside that offset, if the topic has lost the first records of the chain.
func (c *Chain) Read(ctx context.Context, client *Client) (next int64, err error) {
	topic := client.Topics.Weights
	first, end, err := client.Log.Bounds(ctx, topic, 0)
	if err != nil {
		return 0, err
	}
	from := max(first, c.Plan.Since.Weights)
	if from > end { // the topic was recreated after the plan was written
		from = first
	}
	for m, err := range client.Between(ctx, topic, 0, from, end) {
		if err == nil {
			_, err = c.Add(m.Message)
		}
		if err != nil {
			return 0, fmt.Errorf("read weights of run %s: %w", c.Run, err)
		}
	}
	if c.next = end; first > c.Plan.Since.Weights && (c.Survey == nil || len(c.early) > 0) {
		return end, &ExpiredError{c.Run, topic, first}
	}
	return end, nil
}

// Follow applies the next message of a subscription to the weights topic. See [Chain.Add].
func (c *Chain) Follow(m Message) (grown bool, err error) {
	c.next = m.Offset + 1
	return c.Add(m.Message)
}

// Renew compares the chain with the weights topic. After an unclean leader election, accepted records may be lost, and
// records written since may have offsets that were already read. A role calls Renew when it has waited long for a message.
// If the head of the chain is not accepted on the topic, the topic differs, and the role restarts from it; otherwise Renew applies the
// messages that the chain lacks. A topic with more records of the same chain does not differ, nor does one whose first records have
// expired. The error is an *[ExpiredError] if records have expired that the chain has not accepted.
func (c *Chain) Renew(ctx context.Context, client *Client) (differs bool, err error) {
	there := NewOutline(c.Plan, c.mem)
	_, err = there.Read(ctx, client)
	switch expired := errors.As(err, new(*ExpiredError)); {
	case err != nil && !expired:
		return false, err
	case !expired && !there.Has(c.Head()):
		return true, nil
	}
	_, err = c.Read(ctx, client)
	return false, err
}

// RenewUnread is [Chain.Renew] for a role that waits for another process's record. The error is an *[ExpiredError] also if
// that record may have expired: the topic starts beyond the last offset read, and has no next record.
func (c *Chain) RenewUnread(ctx context.Context, client *Client) (differs bool, err error) {
	head, next := c.Head(), c.next
	if differs, err = c.Renew(ctx, client); err != nil || differs || c.Head() != head {
		return differs, err
	}
	first, _, err := client.Log.Bounds(ctx, client.Topics.Weights, 0)
	if err == nil && first > next {
		err = &ExpiredError{c.Run, client.Topics.Weights, first}
	}
	return false, err
}

// Warm initializes the stages with the weights of the version that the plan starts from, and returns that version. It
// returns nil in a cold start.
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
		if w := earlier.Weights(t); w != nil && !c.grows(t) { // weights of other trees can't be reused
			c.initial[t], c.ridges[t] = w, manifest.Ridge(t)
		}
	}
	c.earlier = earlier
	return earlier, nil
}

// GramVisit returns the visit to which the Gram matrices of an update's stage belong. They do not depend on weights.
func (c *Chain) GramVisit(stage int) Visit { return Visit{Stage: stage, Parent: c.SurveyDigest()} }

// Visit is a visit to a stage.
type Visit struct {
	Stage  int         // schemas.Survey, 0, 1, …
	Number int         // number of the visit within its stage: 0, 1, …
	Parent wire.Digest // record from which the statistics are computed
}

// Due returns the worker's next steps after the accepted records. First it publishes and seals the residuals of stage
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

// grows reports whether the first visit to a stage grows its trees. The stages of an update have the trees of the previous
// version.
func (c *Chain) grows(stage int) bool {
	return stage < len(c.Plan.Stages) && c.Plan.Update() == nil && stages.KindOf(c.Plan.Stages[stage].Features).Grown
}

// first returns the number of the first visit to a stage.
func (c *Chain) first(stage int) int {
	if c.grows(stage) {
		return wire.Growth
	}
	return 0
}

// structure returns the record of a stage's trees; nil if it has none, or none yet. An update writes the trees of the
// previous version in a record of its own, since its version must stay readable when the previous one is removed.
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

// GrowthVisit returns the visit that grows the trees of a stage, and whether it is due: whether the stage has trees that
// are not accepted yet. The record that the stage starts from must be accepted.
func (c *Chain) GrowthVisit(stage int) (v Visit, due bool) {
	if !c.grows(stage) || c.structure(stage) != nil {
		return v, false
	}
	return Visit{stage, wire.Growth, c.Head()}, true
}

// Visits returns the visits of a stage so far, in order, without that of [Chain.GrowthVisit]. The last one may still be
// due.
func (c *Chain) Visits(stage int) (visits []Visit) {
	if stage == wire.Survey {
		return []Visit{{stage, 0, c.Root}}
	}
	if stage == 0 && c.Survey != nil && !c.grows(stage) {
		visits = append(visits, Visit{stage, 0, c.SurveyDigest()})
	}
	for i, w := range c.weights {
		switch {
		case w.Stage == stage-1 && w.Final != nil && !c.grows(stage):
			visits = append(visits, Visit{stage, 0, c.digest(i)})
		case w.Stage == stage && w.Final == nil:
			visits = append(visits, Visit{stage, w.Visit, c.digest(i)})
		}
	}
	return visits
}

// WeightsFor returns the weights for a visit, and the initial W (p × k) of its stage. Both are nil for the first visit to
// a stage in a cold start.
func (c *Chain) WeightsFor(v Visit) (w *schemas.Weights, initial []float32) {
	for _, w := range c.weights {
		if w.Stage == v.Stage && w.Visit == v.Number && w.Kind == schemas.KindWeights {
			return w, nil
		}
	}
	return nil, c.Initial(v.Stage)
}

// Initial returns the initial W (p × k) of a stage in a warm start; nil means zeros. In an update on sparse rows, the
// previous version may lack some inputs.
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

// Forget frees the memory of weights that are not needed from a visit on: the weights of earlier visits, except final
// weights, weights of learnt links, and the weights that the visit's weights change.
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
			bare := *w // the weights may still be in use elsewhere
			bare.Tensors = nil
			c.weights[i] = &bare
		}
	}
}

// Passes returns the pass reports of a stage, in order, from its accepted weights.
func (c *Chain) Passes(stage int) (passes []schemas.PassReport) {
	for _, w := range c.weightsOf(stage) {
		if w.Pass != nil {
			passes = append(passes, *w.Pass)
		}
	}
	return passes
}

// Preserve writes the accepted records of an unfinished run again if they are older than age, so that retention does not
// delete records that another process needs to continue the run. Readers of a chain ignore duplicates, at any offset.
func (c *Client) Preserve(ctx context.Context, chain *Chain, age time.Duration) error {
	topic := c.Topics.Weights
	old, err := c.Log.Before(ctx, topic, age)
	if err != nil || old[0] <= chain.Plan.Since.Weights {
		return err
	}
	type message struct { // of a record: its key, and the record's digest
		key    string
		digest wire.Digest
	}
	failed := func(err error) error {
		return fmt.Errorf("write the weights of run %s again before they expire: %w", chain.Run, err)
	}
	latest := map[message]int64{}
	for m, err := range c.Remaining(ctx, topic, 0, chain.Plan.Since.Weights, math.MaxInt64) {
		if err != nil {
			return failed(err)
		}
		if m.Run() == chain.Run && chain.Has(m.Digest()) {
			latest[message{m.Key, m.Digest()}] = m.Offset
		}
	}
	for m, err := range c.Remaining(ctx, topic, 0, chain.Plan.Since.Weights, old[0]) {
		if at, accepted := latest[message{m.Key, m.Digest()}]; err == nil && accepted && at == m.Offset {
			_, err = c.Log.Append(ctx, topic, 0, m.Message)
		}
		if err != nil {
			return failed(err)
		}
	}
	return nil
}
