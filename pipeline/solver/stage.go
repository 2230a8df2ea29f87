package solver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// fitting is the fit of a stage in progress.
type fitting struct {
	number   int
	stage    *model.Stage
	shape    solve.Shape
	fit      solve.Fit
	observed int // number of observed visits
	began    time.Time
	gathered time.Time           // time at which the statistics of the last visit were complete
	waited   time.Duration       // time spent waiting for the statistics of the last visit
	sum      *accumulate.Sum     // of the last visit
	pass     *schemas.PassReport // completed by the last visit; nil: none
	overflow int64               // rows that the first visit excluded
	gram     []float64           // in a full run of a chain, for the state
}

// stage fits one stage: it observes the accepted visits and publishes the weights for the next one, until a record is
// final. Then it waits until the stage's residuals are sealed.
func (s *Solver) stage(ctx context.Context, number int) error {
	if err := s.grow(ctx, number); err != nil && !errors.Is(err, errAccepted) {
		return err
	}
	f, err := s.fitting(number)
	if err != nil {
		return err
	}
	for {
		visits := s.chain.Visits(number)
		if final, parent := s.chain.Final(number); final != nil && (s.plan.Chain == nil || f.observed == len(visits)) {
			return s.endStage(ctx, f, parent)
		}
		if f.observed < len(visits) {
			err = s.observe(ctx, f, visits[f.observed])
		} else {
			err = s.publishStep(ctx, f, visits[len(visits)-1])
		}
		if err != nil && !errors.Is(err, errAccepted) {
			return err
		}
	}
}

// fitting returns the fit of a stage before any visit is observed.
func (s *Solver) fitting(number int) (*fitting, error) {
	f := &fitting{number: number, began: s.Clock.Now()}
	var err error
	if f.stage, f.shape, err = s.stageShape(number); err != nil {
		return nil, err
	}
	if f.shape.Sparse {
		if err := protocol.CheckSparse(s.MatrixBytes, int64(f.shape.Columns), int64(f.shape.Classes), true); err != nil {
			return nil, err
		}
	}
	if s.updatesSparse() {
		stage, sums, before := s.withRidges(number)[number], s.chained.start.columns.sums[number], s.chained.start.columns.before
		switch {
		case !f.shape.Counted:
			f.fit = solve.NewSparseUpdate(stage, f.shape, sums, s.blockColumns(), s.plan.Update().Passes)
		case before == nil:
			f.fit = solve.NewCountsUpdate(stage, f.shape, sums, s.blockColumns(), nil)
		default:
			f.fit = solve.NewCountsUpdate(stage, f.shape, sums, s.blockColumns(), before[number])
		}
	} else if s.plan.Update() != nil {
		update := s.update(number, f.shape)
		if number == len(s.plan.Stages)-1 && s.hasGateRows() {
			update.EndVisited()
		}
		f.fit = update
	} else {
		updated := s.plan.Chain != nil && s.plan.Chain.Number == 1 && !f.shape.Sparse
		n := s.plan.MemberStages()
		member := s.withRidges(number)[number-number%n:][:n]
		f.fit = solve.NewFit(member, number%n, updated, f.shape, s.factorsOf(number))
	}
	s.inbox.Begin(number)
	return f, nil
}

// stageShape returns a stage and its shape.
func (s *Solver) stageShape(number int) (*model.Stage, solve.Shape, error) {
	stage, err := s.chain.Stage(number)
	if err != nil {
		return nil, solve.Shape{}, err
	}
	calibration := examples.Train // of a learnt link
	if s.plan.Task() == examples.SeveralLabels {
		calibration = examples.Holdout // on the training rows, two of three data sets became worse
	}
	return stage, solve.Shape{
		Columns: stage.Features.Size(), Penalised: stage.Features.Penalised(), Classes: stage.Classes,
		Sparse: stage.Features.Sparse(), Counted: stage.Features.Counted(), AtATime: stage.Features.FittedAtATime(),
		Rounds: stage.Features.Rounds(), Calibration: calibration, Basis: stage.Basis,
		Chained: s.plan.Chain != nil && stage.Features.Sparse(),
		Curved:  stage.Features.Leaves() > 0 && s.plan.Chain == nil && !stage.Link.Learnt,
		Trees:   stage.Features.Trees(),
	}, nil
}

// observe gathers the statistics of a visit, and passes them to the fit. In the first visit to the stage, the fit factors
// the Gram matrix while workers sum the rest.
func (s *Solver) observe(ctx context.Context, f *fitting, v protocol.Visit) error {
	began, factoring := s.Clock.Now(), time.Duration(0)
	s.chain.Forget(v) // before the worker makes the sums
	w, initial := s.chain.WeightsFor(v)
	step := solve.Step{W: initial}
	if w != nil {
		var err error
		if step, err = solve.StepOf(w.Tensors, f.shape); err != nil {
			return err
		}
	}
	sums := s.gathering(v, s.sums(statistics.KindVisit))
	if v.Number == 0 && !f.shape.Sparse {
		var err error
		if factoring, err = s.precondition(ctx, v, f, sums); err != nil {
			return err
		}
	}
	sum, err := s.gather(ctx, sums)
	if err != nil {
		return err
	}
	f.gathered, f.waited = s.Clock.Now().Add(-factoring), s.Clock.Since(began)-factoring
	f.observed++
	f.sum, f.pass = sum, nil
	if rows, err := sum.Tensors().Shaped(statistics.FieldOverflow, 1); err == nil && v.Number == 0 {
		f.overflow = int64(rows[0])
		event.Notice(s.rec, "stage %d leaves out %s, whose inputs or features overflow: set prepare.scale", f.number,
			english.Plural(int(f.overflow), "row", ""))
	}
	evaluation, err := f.fit.Observe(v.Number, step, sum.Tensors())
	for _, name := range []string{statistics.FieldDiagonal, statistics.FieldBounds, statistics.FieldCross} {
		sum.Take(name) // the fit uses its memory
	}
	if err != nil || evaluation == nil {
		return err
	}
	s.passed(f, v.Number, evaluation, sum)
	return nil
}

// passed records the result of a pass.
func (s *Solver) passed(f *fitting, visit int, evaluation *solve.Evaluation, sum *accumulate.Sum) {
	metrics := event.MetricsOf(sum.Tensors())
	f.pass = passReport(measured(metrics), evaluation)
	s.rec.Record(event.Passed{
		Stage: f.number, Visit: visit, Pass: evaluation.Number,
		Accepted: evaluation.Accepted, Objective: evaluation.Objective, Metrics: metrics,
	})
}

// precondition gathers the stage's Gram matrix and passes it to the fit, which factors it while the first visit to the stage, gathered by
// rest, is made. It returns the duration of the factoring.
func (s *Solver) precondition(ctx context.Context, v protocol.Visit, f *fitting, rest *gathering) (time.Duration, error) {
	parts := []*part{s.blockGram(statistics.KindGram)}
	if s.plan.Update() != nil {
		v = s.chain.GramVisit(f.number)
	}
	if s.plan.Update().TakesAway() {
		parts = append(parts, s.blockGram(statistics.KindLeave))
	}
	gram, err := s.gather(ctx, s.gathering(v, parts...), rest)
	if err != nil {
		return 0, err
	}
	if s.plan.Chain != nil && s.plan.Update() == nil {
		field, _ := gram.Tensors().Find(statistics.FieldGram)
		f.gram = slices.Clone(field.Data)
	}
	began, factored := s.Clock.Now(), make(chan error, 1)
	factor := func() { factored <- f.fit.Precondition(gram.Tensors()) }
	if s.plan.Update().IsLocal() {
		go factor()
		if err = s.visitLocal(ctx, rest); err == nil {
			began = s.Clock.Now()
		}
	} else {
		factor()
	}
	err = cmp.Or(err, <-factored) // even after an error: the factoring uses the Gram matrix
	return s.Clock.Since(began), err
}

// publishStep publishes the weights for the visit after last, the newest visit that the fit has observed.
func (s *Solver) publishStep(ctx context.Context, f *fitting, last protocol.Visit) error {
	step, err := f.fit.Next()
	if err != nil {
		return err
	}
	// The parent is the observed visit rather than the head: another solver's weights may be accepted by now.
	w := schemas.Weights{
		Identity: wire.Identity{Kind: schemas.KindWeights, Run: s.run, Stage: f.number, Visit: last.Number + 1, Parent: last.Parent},
		Tensors:  step.Tensors(f.shape), Pass: f.pass,
	}
	if s.plan.Stages[f.number].Ridge == schemas.RidgeAuto {
		w.Ridge = f.fit.Ridge()
	}
	if step.Final {
		w.Final = &schemas.Final{Visit: step.Of, Passes: step.Passes}
		if weight := f.fit.Weight(); f.shape.Counted {
			w.Weight = &weight
		}
	}
	if err := s.publishWeights(ctx, wire.RecordOf[float32](&w)); err != nil {
		return err
	}
	s.rec.Record(event.Solved{Run: s.run, Stage: f.number, Visit: w.Visit, Waited: f.waited, Elapsed: s.Clock.Since(f.gathered)})
	return nil
}

// endStage waits until the residuals of a final stage are sealed, and reports the stage.
func (s *Solver) endStage(ctx context.Context, f *fitting, parent wire.Digest) error {
	sealed := f.sum
	if s.plan.Update() == nil {
		var err error
		v := protocol.Visit{Stage: f.number, Parent: parent}
		if sealed, err = s.gather(ctx, s.gathering(v, s.sums(statistics.KindSeal))); err != nil {
			return err
		}
		s.last = sealed
		if s.plan.Members() > 1 && s.plan.EndsMember(f.number) {
			s.last = sealed.Part(statistics.PartAverage)
		}
	}
	if f.number == len(s.plan.Stages)-1 {
		s.compare(sealed)
	}
	if err := s.endChained(f, sealed); err != nil {
		return err
	}
	r := s.stageReport(f, sealed)
	if s.plan.Members() > 1 {
		r.Member = s.plan.Member(f.number) + 1
		if s.plan.EndsMember(f.number) {
			r.Average = &schemas.AverageReport{Members: r.Member, Measured: measured(event.MetricsOf(s.last.Tensors()))}
		}
	}
	s.stages = append(s.stages, r)
	if _, err := s.Log.Append(ctx, s.Topics.Weights, 0, r.Message(s.run)); err != nil {
		return err
	}
	s.rec.Record(event.StageEnded{StageReport: r, Stages: len(s.plan.Stages)})
	return nil
}

// stageReport returns the report of a stage, from the reduced seals. The results of the fit come from the accepted
// weights, because another solver may have fitted the stage.
func (s *Solver) stageReport(f *fitting, sealed *accumulate.Sum) schemas.StageReport {
	final, _ := s.chain.Final(f.number)
	r := schemas.StageReport{
		Stage: f.number, Link: f.stage.Link.Name, Ridge: f.fit.Ridge(), Weight: final.Weight,
		Seconds: s.Clock.Since(f.began).Seconds(),
		ByPass:  s.chain.Passes(f.number), Overflow: f.overflow,
	}
	if ridge, chosen := s.chain.Ridge(f.number); chosen {
		r.Ridge = ridge
	}
	if n := len(r.ByPass); n > 0 {
		r.Passes = r.ByPass[n-1].Pass
	}
	r.Measured = measured(event.MetricsOf(sealed.Tensors()))
	if temperature, loss, ok := sealed.TemperedOf(); ok { // predicts the holdout rows best
		r.Tempered = &schemas.TemperedReport{Temperature: temperature, HoldoutLoss: wire.Finite(loss)}
	}
	return r
}

// shape returns the numbers of columns and classes of a stage.
func (s *Solver) shape(stage int) (p, k int) {
	of, err := s.chain.Stage(stage)
	if err != nil {
		panic(fmt.Sprintf("solver: a stage that was fitted: %v", err))
	}
	return of.Features.Size(), of.Classes
}

// withRidges returns the stages of the plan for the fit of one of them, with the numbers of the auto ridges that are
// known. A ridge is known, in this order, from
//
//   - the stage's own weights, published by another solver;
//   - the version that the stage starts from, so that the penalty on its weights does not change;
//   - the first equal stage.
func (s *Solver) withRidges(number int) []schemas.Stage {
	stage := s.plan.Stages[number]
	if stage.Ridge != schemas.RidgeAuto {
		return s.plan.Stages
	}
	known := slices.Clone(s.plan.Stages)
	known[number].Ridge = s.knownRidge(number)
	return known
}

// knownRidge returns the ridge of a stage, or auto if it is not chosen yet.
func (s *Solver) knownRidge(number int) schemas.Ridge {
	if ridge, chosen := s.chain.Ridge(number); chosen {
		return ridge
	}
	if stages.KindOf(s.plan.Stages[number].Features).Grown {
		return solve.GrownRidge
	}
	if ridge, begins := s.chain.InitialRidge(number); begins {
		return ridge
	}
	if first := slices.IndexFunc(s.plan.Stages, func(t schemas.Stage) bool { return solve.Alike(t, s.plan.Stages[number]) }); first < number {
		return s.knownRidge(first)
	}
	return schemas.RidgeAuto
}

// grow publishes the trees of a stage that has none yet, grown on the sample of the visit before the stage's first one. A
// stage without trees needs no such visit.
func (s *Solver) grow(ctx context.Context, number int) error {
	v, due := s.chain.GrowthVisit(number)
	if !due {
		return nil
	}
	s.inbox.Begin(number)
	sample := &accumulate.Sample{Max: s.plan.Stages[number].Features.Sample}
	sum, err := s.gather(ctx, s.gathering(v, s.sums(statistics.KindVisit), s.samples(sample)))
	if err != nil {
		return err
	}
	forest, err := growForest(s.plan, number, s.chain.Prepared, sample.Rows(), sum.Tensors())
	if err != nil {
		return err
	}
	w := schemas.Weights{
		Identity: wire.Identity{Kind: schemas.KindStructure, Run: s.run, Stage: number, Parent: v.Parent}, Tensors: stages.StructureOf(forest),
	}
	return s.publishWeights(ctx, wire.RecordOf[float32](&w))
}

// samples gathers samples of rows.
func (s *Solver) samples(all *accumulate.Sample) *part {
	drawn := map[uint64]bool{}
	return &part{kind: statistics.KindSample, read: func(id wire.Identity, _ *schemas.Share) (*accumulate.Sum, error) {
		sample, err := statistics.SampleOf(s.inbox.take(id))
		if err != nil {
			return nil, err
		}
		return &accumulate.Sum{}, all.MergeRecord(sample, drawn)
	}}
}

const (
	// rowsPerLeaf is the minimum number of sample rows of a leaf.
	rowsPerLeaf = 5
	// triedOrders is the fraction of columns that a node tries, and triedThresholds the number of random thresholds for each.
	// One threshold gives 13.32 % errors on Adult and 16.3 % on KRK, two 13.17 and 16.0, four 13.08 and 15.9, eight 13.07 and
	// 15.7.
	triedOrders, triedThresholds = 0.5, 4
)

// errNoGrowth means that the sample has no rows on which to grow trees.
var errNoGrowth = errors.New("no training row has a label and a weight above 0")

// growForest grows the trees of a plan's stage from its sample rows and the sums of its words. The result does not depend on
// the number of cores.
func growForest(plan *schemas.Plan, number int, prepared *stages.Preparation, rows kernel.Dense, sums wire.Tensors[float64]) (
	f tree.Forest, err error) {
	coder, k, features := prepared.Coder, prepared.Labels.Len(), plan.Stages[number].Features
	if coder == nil {
		return f, stages.ErrNoCodes
	}
	c := coder.Width()
	if rows.Rows == 0 {
		return f, errNoGrowth
	}
	if want := statistics.GrowthWidth(c, k); rows.Cols != want {
		return f, fmt.Errorf("%w: rows of a sample have %d values, expected %d", wire.ErrDamaged, rows.Cols, want)
	}
	var ofWords []float64
	numbers, words := coder.Divided()
	if len(words) > 0 {
		if ofWords, err = sums.Shaped(statistics.FieldWords, len(words), tree.Codes, k+1); err != nil {
			return f, err
		}
	}
	orders := tree.NewOrders(numbers, words, ofWords, plan.Seed, uint64(number))
	shape := tree.Shape{Trees: features.Size / features.Leaves, Leaves: features.Leaves, Rows: rowsPerLeaf, Share: triedOrders,
		Thresholds: triedThresholds}
	return tree.Grow(rows, c, orders, shape, plan.Seed, uint64(number), runtime.GOMAXPROCS(0)), nil
}
