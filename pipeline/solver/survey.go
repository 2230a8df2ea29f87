package solver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// survey turns the survey's statistics into its result, unless a result is accepted already. earlier is the version that the run starts
// from, whose preparation it keeps; nil if it starts from none.
func (s *Solver) survey(ctx context.Context, earlier *model.Model) error {
	s.inbox.begin(schemas.Survey)
	if s.chain.Survey == nil || s.plan.Chain != nil {
		if err := s.publishSurvey(ctx, earlier); err != nil && !errors.Is(err, errAccepted) {
			return err
		}
	}
	for t, stage := range s.plan.Stages {
		if stage.Stop == nil {
			continue
		}
		if split, err := schemas.ParseSplit(stage.Stop.Split); err == nil && s.chain.Survey.Rows[split] == 0 {
			event.Notice(s.rec, "stage %d stops by the loss of the %s rows, but there are none: it makes all its passes", t, split)
		}
	}
	s.rec.Record(s.chain.Surveyed(time.Since(s.began)))
	return nil
}

// publishSurvey gathers the survey's statistics and publishes its result.
func (s *Solver) publishSurvey(ctx context.Context, earlier *model.Model) error {
	v := run.Visit{Stage: schemas.Survey, Parent: s.chain.Root}
	found := &findings{labels: accumulate.LabelSet{}, sample: &accumulate.Sample{}, covered: map[int]schemas.Coverage{}}
	sum, err := s.gather(ctx, s.gathering(v, s.surveySum(v, found)))
	if err != nil {
		return err
	}
	s.chained.survey(s.plan, sum, found)
	if s.chain.Survey != nil { // of a chain: another solver has published it
		return nil
	}
	preparation, err := s.preparation(sum, found, earlier)
	if err != nil {
		return err
	}
	if _, images := preparation.Find(schemas.TensorImage); !images && s.plan.Augment != (schemas.Augment{}) {
		return errNothingToAugment
	}
	result := schemas.SurveyResult{
		Identity:    schemas.Identity{Kind: schemas.KindPrepare, Run: s.run, Stage: schemas.Survey, Parent: v.Parent},
		Quarantined: found.quarantined, PassedOver: found.passedOver, Preparation: preparation, Columns: found.columns,
	}
	for _, cut := range s.plan.Expiring {
		result.PassedOver.Count(schemas.Expiring, cut.Len())
	}
	for _, cut := range s.plan.Outside {
		result.PassedOver.Count(schemas.Outside, cut.Len())
	}
	if s.plan.Chain == nil {
		result.PassedOver.Count(schemas.Expired, ingest.NewCounting(s.plan).WithoutSpan())
	}
	result.Skipped, result.Increments = found.skipped, found.increments
	for _, span := range s.plan.Spans.Hulls() {
		result.Covered = append(result.Covered, found.covered[span.Partition])
	}
	for split, losses := range schemas.LossesOf(sum.Tensors()) {
		result.Rows[split] = int64(losses.Rows)
	}
	return s.publishWeights(ctx, result.Record())
}

// findings is what the survey found beside its sums, in all partitions so far.
type findings struct {
	labels      accumulate.LabelSet
	sample      *accumulate.Sample
	shift       []float32
	sparse      bool
	columnRows  accumulate.ColumnRows
	image       schemas.Image
	columns     schemas.Columns
	covered     map[int]schemas.Coverage // of each partition
	quarantined int64
	passedOver  schemas.PassedOver
	skipped     schemas.Spans
	progress    []schemas.SourceProgress
	unknown     []schemas.LabelRows
	increments  []schemas.Increment // of a full run of a chain
	messages    []partitionMessage  // of an update
	bad         schemas.BadMessages // of the newest increment
}

// surveySum gathers the survey's sums, and for a preparation its samples, and its Gram matrices if the plan asks for principal
// components. It puts what is no sum into found.
func (s *Solver) surveySum(v run.Visit, found *findings) part {
	p, hasGram := part{kinds: []schemas.Kind{schemas.KindVisit}}, s.plan.Prepares() && s.plan.Prepare.PCA > 0
	if s.plan.Prepares() {
		p.kinds = append(p.kinds, schemas.KindSample)
	}
	if hasGram {
		p.kinds = append(p.kinds, schemas.KindGram)
	}
	p.sum = func(span schemas.Span) (*accumulate.Sum, error) {
		visit, err := schemas.SurveyVisitOf(s.inbox.double(s.identity(schemas.KindVisit, v, span.Partition)))
		if err != nil {
			return nil, err
		}
		if s.plan.Prepares() {
			sample, err := schemas.SampleOf(s.inbox.single(s.identity(schemas.KindSample, v, span.Partition)))
			if err != nil {
				return nil, err
			}
			found.sample.MergeRecord(sample)
		}
		if hasGram {
			gram, err := schemas.ExactGramOf(s.inbox.double(s.identity(schemas.KindGram, v, span.Partition)))
			if err != nil {
				return nil, err
			}
			visit.Sums = append(visit.Sums, gramFields(gram)...)
		}
		found.shift, found.columns, found.image = visit.Shift, visit.Columns, visit.Image
		found.sparse = visit.Sparse
		found.columnRows.MergeRecord(visit.ColumnRows)
		for i, label := range visit.Labels {
			rows := int64(0)
			if visit.LabelRows != nil {
				rows = visit.LabelRows[i]
			}
			found.labels.Add(label, rows)
		}
		found.quarantined += visit.Quarantined
		found.passedOver.Add(visit.PassedOver)
		found.covered[span.Partition] = visit.Covered
		found.addChained(s.plan, span.Partition, visit)
		return accumulate.NewSum(visit.Covered, visit.Sums), nil
	}
	return p
}

// preparation returns the preparation that the survey's sums give, or that of the version that the run starts from. Then the examples
// must fit it.
func (s *Solver) preparation(sum *accumulate.Sum, found *findings, earlier *model.Model) (schemas.Tensors[float32], error) {
	if earlier != nil {
		return earlier.Preparation(), s.checkKept(found, earlier)
	}
	labels := s.plan.Classes
	switch {
	case s.plan.Task() == schemas.Numbers:
		labels = s.plan.Targets
	case len(labels) == 0:
		labels = found.labels.Text()
	}
	if s.plan.Task() == schemas.SeveralLabels {
		if err := solve.CheckSeveral(len(labels)); err != nil {
			return nil, err
		}
	}
	open := s.plan.Chain != nil && s.plan.Chain.Open
	classWeights, err := solve.ClassWeights(s.plan.ClassWeight, labels, found.labels, open)
	if err != nil {
		return nil, err
	}
	prepare, sums := s.plan.Prepare, sum.Tensors()
	var preparation *solve.Preparation
	if found.sparse {
		rows := int64(schemas.LossesOf(sums)[schemas.Train].Rows)
		preparation, err = solve.SurveyColumns(prepare, solve.ColumnSums{Columns: found.columnRows.Record(), Rows: rows, Labels: labels, Task: s.plan.Task()})
	} else {
		preparation, err = solve.Survey(solve.SurveySums{Sums: sums, Shift: found.shift, Labels: labels, Task: s.plan.Task()},
			prepare.Scale == stages.ScaleStandard, prepare.PCA)
	}
	if err != nil {
		return nil, err
	}
	preparation.ClassWeights = classWeights
	if s.plan.Task() == schemas.Numbers {
		if preparation.TargetCenter, preparation.TargetScale, err = solve.Targets(sums, labels); err != nil {
			return nil, err
		}
	}
	if found.sparse {
		return preparation.Tensors(0), nil
	}
	rows := prepareSample(s.blas, prepare, preparation, found.sample.Rows())
	spread, err := solve.Spread(rows)
	if err != nil {
		return nil, err
	}
	tensors := preparation.Tensors(spread)
	if s.plan.Input.Image != (schemas.Image{}) {
		found.image = s.plan.Input.Image
	}
	if found.image != (schemas.Image{}) {
		if n := found.image.Size(); n != len(found.shift) {
			return nil, fmt.Errorf("the examples have %d features, but examples.image is %v, which has %d", len(found.shift), found.image, n)
		}
		tensors = append(tensors, schemas.Vector(schemas.TensorImage, []float32{float32(found.image[0]), float32(found.image[1]), float32(found.image[2])}))
	}
	return s.learn(tensors, rows)
}

// errNothingToAugment says that the plan wants rows made of images, but there are none.
var errNothingToAugment = errors.New("examples.augment makes rows of images, but neither the examples nor the configuration say the shape of any: set examples.image to height, width and channels, such as [28, 28, 1], or leave examples.augment out")

// learn adds to a preparation what the stages learn of the sample, whose rows are prepared.
func (s *Solver) learn(tensors schemas.Tensors[float32], rows kernel.Dense) (schemas.Tensors[float32], error) {
	prepared, err := stages.NewPreparation(s.plan.Prepare, tensors)
	if err != nil {
		return nil, err
	}
	learner := stages.Learner{BLAS: s.blas, Seed: s.plan.Seed, Rows: rows, Whiten: solve.Whiten}
	for t, stage := range s.plan.Stages {
		learnt, err := learner.Learn(stage.Features, t, prepared)
		if err != nil {
			return nil, fmt.Errorf("learn the features of stage %d: %w", t, err)
		}
		tensors = append(tensors, learnt...)
	}
	return tensors, nil
}

// prepareSample returns the rows of the sample (n × d) prepared (n × m), and overwrites the sample. It prepares one row at a time:
// in a product of several rows a BLAS may round equal rows differently, and the spread must see that they are equal.
func prepareSample(blas *kernel.BLAS, prepare schemas.Prepare, found *solve.Preparation, sample kernel.Dense) kernel.Dense {
	p := stages.NewInputs(prepare, found.Center, found.Scale, found.Basis)
	rows := kernel.NewDense(sample.Rows, p.Inputs())
	for i := range sample.Rows {
		p.Apply(blas, rows.Slice(i, i+1), sample.Slice(i, i+1))
	}
	return rows
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
	if difference := found.columns.Difference(earlier.Columns()); earlier.Columns() != nil && difference != "" {
		return fmt.Errorf("%s, as in the version that this run starts from", difference)
	}
	if len(s.plan.Classes) > 0 && !slices.Equal(s.plan.Classes, classes) {
		return fmt.Errorf("examples.classes are not those of the version that this run starts from, %q", classes)
	}
	var others []string
	for label := range found.labels {
		if !slices.Contains(classes, label) {
			others = append(others, label)
		}
	}
	if slices.Sort(others); len(others) > 0 {
		return fmt.Errorf("labels %q are not among the classes of the version that this run starts from: start without it", others)
	}
	return nil
}
