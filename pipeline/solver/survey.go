package solver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/counting"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver/notice"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve/survey"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// survey turns the survey's statistics into its result, unless a result is accepted already. earlier is the version that the run starts
// from, whose preparation it keeps; nil if it starts from none.
func (s *Solver) survey(ctx context.Context, earlier *model.Model) error {
	s.inbox.Begin(wire.Survey)
	if s.chain.Survey == nil || s.plan.Chain != nil {
		if err := s.publishSurvey(ctx, earlier); err != nil && !errors.Is(err, errAccepted) {
			return err
		}
	}
	for t, stage := range s.plan.Stages {
		if stage.Stop == nil {
			continue
		}
		if split, err := examples.ParseSplit(stage.Stop.Split); err == nil && s.chain.Survey.Rows[split] == 0 {
			event.Notice(s.rec, "stage %d stops by the loss of the %s rows, but there are none: it makes all its passes", t, split)
		}
	}
	s.rec.Record(s.chain.Surveyed(s.Clock.Since(s.began)))
	return nil
}

// publishSurvey gathers the survey's statistics and publishes its result.
func (s *Solver) publishSurvey(ctx context.Context, earlier *model.Model) error {
	v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
	found := &findings{labels: accumulate.LabelSet{}, sample: &accumulate.Sample{}, untrained: map[string]int64{},
		visits: map[int]statistics.SurveyVisit{}}
	sum, err := s.gather(ctx, s.gathering(v, s.surveySum(found)...))
	if err != nil {
		return err
	}
	s.chained.found = newSurveyed(s.plan, sum, found)
	if s.chain.Survey != nil { // of a chain: another solver has published it
		return nil
	}
	preparation, err := s.preparation(sum, found, earlier)
	if forgotten := found.passedOver[coverage.ForgottenRow]; err != nil && forgotten > 0 && errors.As(err, new(*survey.LabelsError)) {
		return fmt.Errorf("%w (%d rows are forgotten)", err, forgotten)
	}
	if err != nil {
		return err
	}
	if _, images := preparation.Find(statistics.TensorImage); !images && s.plan.Augment != (schemas.Augment{}) {
		return errNothingToAugment
	}
	if notice := notice.WithoutTraining(found.labels, found.untrained); notice != "" {
		event.Notice(s.rec, "%s", notice)
	}
	result := statistics.SurveyResult{
		Identity:    wire.Identity{Kind: statistics.KindPrepare, Run: s.run, Stage: wire.Survey, Parent: v.Parent},
		Quarantined: found.quarantined, PassedOver: found.passedOver, Preparation: preparation, Columns: found.columns,
	}
	for _, cut := range s.plan.Expiring {
		result.PassedOver.Count(coverage.Expiring, cut.Len())
	}
	for _, cut := range s.plan.Outside {
		result.PassedOver.Count(coverage.Outside, cut.Len())
	}
	if s.plan.Chain == nil {
		result.PassedOver.Count(coverage.Expired, counting.New(s.plan).WithoutSpan())
	}
	result.Skipped, result.Increments = found.skipped, found.increments
	for _, span := range s.plan.Spans.Hulls() {
		result.Covered = append(result.Covered, found.visits[span.Partition].Covered)
	}
	for split, losses := range statistics.LossesOf(sum.Tensors()) {
		result.Rows[split] = int64(losses.Rows)
	}
	return s.publishWeights(ctx, result.Record())
}

// findings is what the survey found beside its sums, in all partitions so far.
type findings struct {
	labels      accumulate.LabelSet
	sample      *accumulate.Sample
	shift       []float32
	targets     []float64 // the point that the moments of numbers are about
	sparse      bool
	columnRows  accumulate.ColumnRows
	image       examples.Image
	columns     examples.Columns
	visits      map[int]statistics.SurveyVisit // of each partition, without its sums
	quarantined int64
	passedOver  coverage.PassedOver
	untrained   map[string]int64 // rows of labels of which a partition has holdout and test rows alone
	chainFindings
}

// surveySum gathers the survey's sums, and for a preparation its samples, and its Gram matrices if the plan asks for principal
// components. It puts what is no sum into found.
func (s *Solver) surveySum(found *findings) []*part {
	visits := &part{kind: statistics.KindVisit, alone: true}
	visits.sum = func(id wire.Identity, _ coverage.Spans) (*accumulate.Sum, error) {
		visit, err := statistics.SurveyVisitOf(s.inbox.Double(id))
		if err != nil {
			return nil, err
		}
		found.shift, found.targets, found.columns, found.image = visit.Shift, visit.TargetShift, visit.Columns, visit.Image
		found.sparse = visit.Sparse
		found.columnRows.MergeRecord(visit.ColumnRows)
		for i, label := range visit.Labels {
			rows := int64(0)
			if visit.LabelRows != nil {
				rows = visit.LabelRows[i]
			}
			found.labels.Add(label, rows)
		}
		for _, u := range visit.Untrained {
			found.untrained[u.Label] += u.Rows
		}
		found.quarantined += visit.Quarantined
		found.passedOver.Add(visit.PassedOver)
		of := *visit
		of.Sums, of.Shift, of.TargetShift, of.ColumnRows = nil, nil, nil, nil
		of.Labels, of.LabelRows, of.Untrained, of.Columns = nil, nil, nil, nil
		found.visits[id.Partition] = of
		return accumulate.NewSum(visit.Covered, visit.Sums), nil
	}
	parts := []*part{visits}
	if s.plan.Prepares() {
		parts = append(parts, s.samples(found.sample))
	}
	if s.plan.Prepares() && s.plan.Prepare.PCA > 0 {
		parts = append(parts, s.exactGram())
	}
	return parts
}

// preparation returns the preparation that the survey's sums give, or that of the version that the run starts from. Then the examples
// must fit it.
func (s *Solver) preparation(sum *accumulate.Sum, found *findings, earlier *model.Model) (wire.Tensors[float32], error) {
	if earlier != nil {
		err := s.checkKept(found, earlier)
		if err == nil && s.updatesSparse() {
			rows := s.chained.start.window.Rows() + int64(statistics.LossesOf(sum.Tensors())[examples.Train].Rows)
			return survey.Extend(s.plan.Prepare, earlier.Preparation(), found.columnRows.Record(), rows), nil
		}
		return earlier.Preparation(), err
	}
	labels := s.plan.Classes
	switch {
	case s.plan.Task() == examples.Numbers:
		labels = s.plan.Targets
	case len(labels) == 0:
		labels = found.labels.Text()
	}
	if n := len(labels); !s.plan.Threshold.IsZero() && n != 2 {
		return nil, fmt.Errorf("threshold: %v: expected no value, because there are %d classes: a threshold decides between two",
			s.plan.Threshold, n)
	}
	if s.plan.Task() == examples.SeveralLabels {
		if err := survey.CheckSeveral(len(labels)); err != nil {
			return nil, err
		}
	}
	open := s.plan.Chain != nil && s.plan.Chain.Open
	classWeights, err := survey.ClassWeights(s.plan.ClassWeight, labels, found.labels, open)
	if err != nil {
		return nil, err
	}
	how, sums := s.plan.Prepare, sum.Tensors()
	var preparation *survey.Preparation
	if found.sparse {
		rows := int64(statistics.LossesOf(sums)[examples.Train].Rows)
		preparation, err = survey.Sparse(how, survey.ColumnSums{Columns: found.columnRows.Record(), Rows: rows, Labels: labels,
			Task: s.plan.Task(), Numbers: survey.DenseSums{Sums: sums, Shift: found.shift, Labels: labels, Task: s.plan.Task()}})
	} else {
		preparation, err = survey.Dense(survey.DenseSums{Sums: sums, Shift: found.shift, Labels: labels, Task: s.plan.Task()},
			how.Scale == prepare.ScaleStandard || how.Scale == prepare.ScaleRanks, how.PCA)
	}
	if err != nil {
		return nil, err
	}
	preparation.ClassWeights = classWeights
	if s.plan.Task() == examples.Numbers {
		if preparation.TargetCenter, preparation.TargetScale, err = survey.Targets(sums, found.targets, labels); err != nil {
			return nil, err
		}
	}
	if found.sparse {
		return preparation.Tensors(0), nil
	}
	sample := found.sample.Rows()
	for _, notice := range notice.Features(s.plan.Task(), preparation, found.columns, sample) {
		event.Notice(s.rec, "%s", notice)
	}
	learnt, ranks := stages.LearnBins(s.plan.Stages, found.columns, sample), wire.Tensors[float32](nil)
	if how.Scale == prepare.ScaleRanks {
		ranks = prepare.LearnRanks(found.columns, sample, preparation.Center, preparation.Scale)
		learnt = append(learnt, ranks...)
	}
	rows := prepare.Sample(s.blas, how, preparation.Center, preparation.Scale, preparation.Basis, ranks, sample)
	spread, err := survey.Spread(rows)
	if err != nil {
		return nil, err
	}
	tensors := preparation.Tensors(spread)
	if s.plan.Input.Image != (examples.Image{}) {
		found.image = s.plan.Input.Image
	}
	if found.image != (examples.Image{}) {
		if n := found.image.Size(); n != len(found.shift) {
			return nil, fmt.Errorf("the examples have %d features, but examples.image is %v, which has %d", len(found.shift), found.image, n)
		}
		tensors = append(tensors, wire.Vector(statistics.TensorImage,
			[]float32{float32(found.image[0]), float32(found.image[1]), float32(found.image[2])}))
	}
	return s.learn(append(tensors, learnt...), rows)
}

// errNothingToAugment says that the plan wants rows made of images, but there are none.
var errNothingToAugment = errors.New("examples.augment makes rows of images, but neither the examples nor the configuration " +
	"say the shape of any: set examples.image to height, width and channels, such as [28, 28, 1], or leave examples.augment out")

// learn adds to a preparation what the stages learn of the sample, whose rows are prepared.
func (s *Solver) learn(tensors wire.Tensors[float32], rows kernel.Dense) (wire.Tensors[float32], error) {
	prepared, err := prepare.New(s.plan.Prepare, tensors)
	if err != nil {
		return nil, err
	}
	learner := stages.Learner{BLAS: s.blas, Seed: s.plan.Seed, Rows: rows, Whiten: survey.Whiten}
	for t, stage := range s.plan.Stages {
		learnt, err := learner.Learn(stage.Features, t, prepared)
		if err != nil {
			return nil, fmt.Errorf("learn the features of stage %d: %w", t, err)
		}
		tensors = append(tensors, learnt...)
	}
	return tensors, nil
}

// checkKept returns an error if the examples do not fit the preparation of an earlier version: if they have another number of
// features, other columns, or other classes. Examples that do not say their columns are taken to have those of the version.
func (s *Solver) checkKept(found *findings, earlier *model.Model) error {
	classes := earlier.Labels()
	if found.sparse != earlier.Sparse() {
		return errors.New("the version that this run starts from was trained on rows of the other kind, sparse or dense")
	}
	if s.plan.Update() == nil && !found.sparse && earlier.Width() != len(found.shift) {
		return fmt.Errorf("%d features, the version that this run starts from has %d", len(found.shift), earlier.Width())
	}
	if found.columns == nil {
		found.columns = earlier.Columns()
	}
	if earlier.Columns() != nil {
		if difference := found.columns.Difference(earlier.Columns()); difference != "" {
			return fmt.Errorf("%s, as in the version that this run starts from", difference)
		}
		found.columns = earlier.Columns() // with the offsets that the preparation is for
	}
	if len(s.plan.Classes) > 0 && !slices.Equal(s.plan.Classes, classes) {
		return fmt.Errorf("examples.classes are not those of the version that this run starts from, %q", classes)
	}
	var others []string
	known := examples.NewLabels(classes)
	for label := range found.labels {
		if !slices.Contains(classes, known.Spelt(label)) {
			others = append(others, label)
		}
	}
	if slices.Sort(others); len(others) > 0 {
		return fmt.Errorf("labels %q are not among the classes of the version that this run starts from: start without it", others)
	}
	return nil
}
