package solver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// survey computes the survey's result from its statistics, unless a result is already accepted. earlier is the version
// that the run starts from, whose preparation it keeps; nil in a cold start.
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
	found := &surveyFindings{Findings: accumulate.NewFindings()}
	sum, err := s.gather(ctx, s.gathering(v, s.surveySum(found)...))
	if err != nil {
		return err
	}
	if s.plan.Chain != nil {
		s.chained.found = newSurveyed(s.plan, &found.Findings, sum)
	}
	if s.chain.Survey != nil { // in a chain, another solver has published it
		return nil
	}
	preparation, err := s.preparation(sum, found, earlier)
	if forgotten := found.PassedOver[coverage.ForgottenRow]; err != nil && forgotten > 0 && errors.As(err, new(*solve.LabelsError)) {
		return fmt.Errorf("%w (%d rows are forgotten)", err, forgotten)
	}
	if err != nil {
		return err
	}
	if _, images := preparation.Find(statistics.TensorImage); !images && s.plan.Augment != (schemas.Augment{}) {
		return errNothingToAugment
	}
	if notice := noticeUntrained(found.Labels, found.Untrained); notice != "" {
		event.Notice(s.rec, "%s", notice)
	}
	result := statistics.SurveyResult{
		Identity:    wire.Identity{Kind: statistics.KindPrepare, Run: s.run, Stage: wire.Survey, Parent: v.Parent},
		Quarantined: found.Quarantined, PassedOver: found.PassedOver, Preparation: preparation, Columns: found.Columns,
		Covered: found.Covered(),
	}
	for _, cut := range s.plan.Expiring {
		result.PassedOver.Count(coverage.Expiring, cut.Len())
	}
	for _, cut := range s.plan.Outside {
		result.PassedOver.Count(coverage.Outside, cut.Len())
	}
	if s.plan.Chain == nil {
		result.PassedOver.Count(coverage.Expired, protocol.NewCounting(s.plan).WithoutSpan())
	}
	result.Skipped, result.Increments = s.chained.found.Skipped, s.chained.found.Increments
	for split, losses := range statistics.LossesOf(sum.Tensors()) {
		result.Rows[split] = int64(losses.Rows)
	}
	return s.publishWeights(ctx, result.Record())
}

// surveySum gathers the survey's sums, and to compute a preparation also its samples. Results other than sums go to found.
func (s *Solver) surveySum(found *surveyFindings) []*part {
	visits := &part{kind: statistics.KindVisit}
	visits.read = func(id wire.Identity, share *schemas.Share) (*accumulate.Sum, error) {
		visit, err := statistics.SurveyVisitOf(s.inbox.double(id))
		if err != nil {
			return nil, err
		}
		if s.plan.Chain != nil && visit.Chained == nil {
			return nil, fmt.Errorf("%w: a survey without the findings of a chain: all workers of a run must run the same release",
				wire.ErrDamaged)
		}
		if err := found.Add(visit, share); err != nil {
			return nil, err
		}
		covered := visit.Covered
		for _, part := range visit.Parts {
			covered.Spans = append(covered.Spans, part.Spans...)
		}
		sum := accumulate.NewSum(covered, visit.Sums)
		visit.Sums = nil
		return sum, nil
	}
	parts := []*part{visits}
	if s.plan.Prepares() {
		parts = append(parts, s.samples(&found.Sample))
	}
	return parts
}

// preparation returns the preparation computed from the survey's sums, or that of the version that the run starts from,
// which the examples must fit.
func (s *Solver) preparation(sum *accumulate.Sum, found *surveyFindings, earlier *model.Model) (wire.Tensors[float32], error) {
	if earlier != nil {
		err := s.checkKept(found, earlier)
		if err == nil && s.updatesSparse() {
			rows := s.chained.start.window.Rows() + int64(statistics.LossesOf(sum.Tensors())[examples.Train].Rows)
			return solve.ExtendPreparation(s.plan.Prepare, earlier.Preparation(), found.ColumnRows.Record(), rows)
		}
		return earlier.Preparation(), err
	}
	labels := s.plan.Classes
	switch {
	case s.plan.Task() == examples.Numbers:
		labels = s.plan.Targets
	case len(labels) == 0:
		labels = found.Labels.Text()
	}
	if n := len(labels); !s.plan.Threshold.IsZero() && n != 2 {
		return nil, fmt.Errorf("threshold: %v: expected no value, because there are %d classes: a threshold decides between two",
			s.plan.Threshold, n)
	}
	if s.plan.Task() == examples.SeveralLabels {
		if err := solve.CheckSeveral(len(labels)); err != nil {
			return nil, err
		}
	}
	open := s.plan.Chain != nil && s.plan.Chain.Open
	classWeights, err := solve.ClassWeights(s.plan.ClassWeight, labels, found.Labels, open)
	if err != nil {
		return nil, err
	}
	how, sums := s.plan.Prepare, sum.Tensors()
	var preparation *solve.Preparation
	if found.Sparse {
		rows := int64(statistics.LossesOf(sums)[examples.Train].Rows)
		columns := found.ColumnRows.Record()
		found.ColumnRows = nil // its memory: hundreds of megabytes for ten million columns
		preparation, err = solve.PrepareSparse(how, solve.ColumnSums{Columns: columns, Rows: rows, Labels: labels,
			Task: s.plan.Task(), Numbers: solve.DenseSums{Sums: sums, Shift: found.Shift, Labels: labels, Task: s.plan.Task()}})
	} else {
		preparation, err = solve.PrepareDense(solve.DenseSums{Sums: sums, Shift: found.Shift, Labels: labels, Task: s.plan.Task()},
			how.Scale == prepare.ScaleStandard || how.Scale == prepare.ScaleRanks, how.PCA)
	}
	if err != nil {
		return nil, err
	}
	preparation.ClassWeights = classWeights
	if s.plan.Task() == examples.Numbers {
		if preparation.TargetCenter, preparation.TargetScale, err = solve.PrepareTargets(sums, found.Targets, labels); err != nil {
			return nil, err
		}
	}
	if found.Sparse {
		preparation.Occurring = s.plan.Chain != nil
		return preparation.Tensors(0), nil
	}
	sample := found.Sample.Rows()
	for _, notice := range noticeFeatures(s.plan.Task(), preparation, found.Columns, sample) {
		event.Notice(s.rec, "%s", notice)
	}
	learnt, ranks := stages.LearnBins(s.plan.Stages, found.Columns, sample), wire.Tensors[float32](nil)
	if how.Scale == prepare.ScaleRanks {
		ranks = prepare.LearnRanks(found.Columns, sample, preparation.Center, preparation.Scale)
		learnt = append(learnt, ranks...)
	}
	rows := prepare.Sample(s.blas, how, preparation.Center, preparation.Scale, preparation.Basis, ranks, sample)
	spread, err := solve.Spread(rows)
	if err != nil {
		return nil, err
	}
	tensors := preparation.Tensors(spread)
	if s.plan.Input.Image != (examples.Image{}) {
		found.Image = s.plan.Input.Image
	}
	if found.Image != (examples.Image{}) {
		if n := found.Image.Size(); n != len(found.Shift) {
			return nil, fmt.Errorf("the examples have %d features, but examples.image is %v, which has %d", len(found.Shift), found.Image, n)
		}
		tensors = append(tensors, wire.Vector(statistics.TensorImage,
			[]float32{float32(found.Image[0]), float32(found.Image[1]), float32(found.Image[2])}))
	}
	return s.learn(append(tensors, learnt...), rows)
}

// errNothingToAugment means that the plan augments images, but there are none.
var errNothingToAugment = errors.New("examples.augment makes rows of images, but neither the examples nor the configuration " +
	"say the shape of any: set examples.image to height, width and channels, such as [28, 28, 1], or leave examples.augment out")

// learn adds to a preparation what the stages learn from the sample, whose rows are prepared.
func (s *Solver) learn(tensors wire.Tensors[float32], rows kernel.Dense) (wire.Tensors[float32], error) {
	prepared, err := prepare.New(s.plan.Prepare, tensors)
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

// checkKept returns an error if the examples do not fit the preparation of an earlier version: if the number of features,
// the columns or the classes differ. Examples without column names are assumed to have those of the version.
func (s *Solver) checkKept(found *surveyFindings, earlier *model.Model) error {
	classes := earlier.Labels()
	if found.Sparse != earlier.Sparse() {
		return errors.New("the version that this run starts from was trained on rows of the other kind, sparse or dense")
	}
	if s.plan.Update() == nil && !found.Sparse && earlier.Width() != len(found.Shift) {
		return fmt.Errorf("%d features, but %d in the version that this run starts from", len(found.Shift), earlier.Width())
	}
	if found.Columns == nil {
		found.Columns = earlier.Columns()
	}
	if earlier.Columns() != nil {
		if difference := found.Columns.Difference(earlier.Columns()); difference != "" {
			return fmt.Errorf("%s, as in the version that this run starts from", difference)
		}
		found.Columns = earlier.Columns().WithUnits(found.Columns) // with the offsets of the preparation
	}
	if len(s.plan.Classes) > 0 && !slices.Equal(s.plan.Classes, classes) {
		return fmt.Errorf("examples.classes are not those of the version that this run starts from, %q", classes)
	}
	var others []string
	known := examples.NewLabels(classes)
	for label := range found.Labels {
		if !slices.Contains(classes, known.Spelt(label)) {
			others = append(others, label)
		}
	}
	if slices.Sort(others); len(others) > 0 {
		return fmt.Errorf("labels %q are not among the classes of the version that this run starts from: start without it", others)
	}
	return nil
}

// surveyFindings is the results of the survey other than sums.
type surveyFindings struct {
	accumulate.Findings
	Sample  accumulate.Sample
	Shift   []float32
	Targets []float64 // the point about which the moments of targets are taken
	Sparse  bool
	Image   examples.Image
	Columns examples.Columns
}

// errOtherPoint means that workers used different points for their moments. Each uses the first rows that it has read: the
// topic has changed during the run.
var errOtherPoint = errors.New("the first examples were replaced while workers read them: their sums are centred at different points")

// Add adds the visit to the next share. It returns [errOtherPoint] if the sums of the visit can't be added to the earlier ones.
func (f *surveyFindings) Add(visit *statistics.SurveyVisit, share *schemas.Share) error {
	if len(visit.Parts) != len(share.Partitions) {
		return fmt.Errorf("%v covers %d partitions, expected %v", visit.Identity, len(visit.Parts), share.Partitions)
	}
	if len(f.Parts) > 0 && (visit.Sparse != f.Sparse || !slices.Equal(visit.Shift, f.Shift) || !slices.Equal(visit.TargetShift, f.Targets)) {
		return fmt.Errorf("partitions %d and %d: %w", visit.Partition, f.Parts[0].Partition, errOtherPoint)
	}
	f.Shift, f.Targets, f.Columns, f.Image, f.Sparse = visit.Shift, visit.TargetShift, visit.Columns, visit.Image, visit.Sparse
	f.ColumnRows.MergeRecord(visit.ColumnRows)
	for i, label := range visit.Labels {
		rows := int64(0)
		if visit.LabelRows != nil {
			rows = visit.LabelRows[i]
		}
		f.Labels.Add(label, rows)
	}
	f.Unknown.AddList(visit.Unknown)
	f.Untrained.AddList(visit.Untrained)
	f.Quarantined += visit.Quarantined
	f.PassedOver.Add(visit.PassedOver)
	f.Bad.Merge(visit.Bad)
	for i, covered := range visit.Parts {
		part := accumulate.SurveyedPart{Partition: share.Partitions[i], Covered: covered}
		if visit.Chained != nil {
			part.Chained = visit.Chained[i]
		}
		f.Parts = append(f.Parts, part)
	}
	return nil
}

// advanceSources records the progress of a source in a partition.
func advanceSources(progress []schemas.SourceProgress, partition int, p statistics.PartitionProgress) []schemas.SourceProgress {
	i := slices.IndexFunc(progress, func(s schemas.SourceProgress) bool { return s.Source == p.Source && s.Attempt == p.Attempt })
	if i < 0 {
		progress, i = append(progress, schemas.SourceProgress{Source: p.Source, Attempt: p.Attempt}), len(progress)
	}
	next := slices.Clone(progress[i].Next)
	for len(next) <= partition {
		next = append(next, 0)
	}
	next[partition] = max(next[partition], p.Next)
	progress[i].Next = next
	return progress
}

// surveyed is the findings of the survey of a chain's run in all partitions.
type surveyed struct {
	Sum        *accumulate.Sum
	Unknown    accumulate.LabelSet
	Bad        coverage.BadMessages // of the newest increment
	Covered    []coverage.Coverage  // by partition
	Skipped    coverage.Spans
	Progress   []schemas.SourceProgress
	Messages   []prequentialMessage // of an update
	Served     []statistics.ServedLosses
	Increments []coverage.Increment // of a full run
	Forgotten  int64                // number of forgotten rows of an update's new increment
}

// newSurveyed returns the findings of the survey of a chain's run and its sums.
func newSurveyed(plan *schemas.Plan, f *accumulate.Findings, sum *accumulate.Sum) surveyed {
	s := surveyed{Sum: sum, Unknown: f.Unknown, Bad: f.Bad, Covered: f.Covered()}
	for _, part := range f.Parts {
		s.Skipped = append(s.Skipped, part.Skipped...)
		for _, p := range part.Progress {
			s.Progress = advanceSources(s.Progress, part.Partition, p)
		}
		for _, m := range part.Messages {
			s.Messages = append(s.Messages, prequentialMessage{Partition: part.Partition, MessageLosses: m})
		}
		s.Served = statistics.AddServed(s.Served, part.Served...)
	}
	if plan.Update() != nil {
		s.Forgotten = takeForgotten(sum, 1)[0]
		return s
	}
	s.Increments = slices.Clone(plan.Chain.Increments)
	if len(s.Increments) == 0 {
		s.Increments = []coverage.Increment{{Number: plan.Chain.Number, Weight: 1}}
	}
	forgotten := takeForgotten(sum, len(s.Increments)) // counted again, with the rows of their spans
	for i := range s.Increments {
		of := &s.Increments[i]
		of.Forgotten, of.Covered, of.Skipped, of.Uncounted = forgotten[i], nil, nil, false
		for _, part := range f.Parts {
			if i < len(part.Increments) && len(part.Increments[i].Spans) > 0 {
				of.Covered = append(of.Covered, part.Increments[i])
			}
		}
		for _, skipped := range s.Skipped {
			covered, _ := of.On(skipped.Partition)
			if slices.ContainsFunc(covered.Spans, func(c coverage.Span) bool { return c.From <= skipped.From && skipped.To <= c.To }) {
				of.Skipped = append(of.Skipped, skipped)
			}
		}
	}
	return s
}

// takeForgotten removes the numbers of forgotten rows from a sum, for each of m increments, and returns them.
func takeForgotten(sum *accumulate.Sum, m int) []int64 {
	rows := make([]int64, m)
	field, _ := sum.Take(statistics.FieldForgotten)
	for i := range min(m, len(field.Data)) {
		rows[i] = int64(field.Data[i])
	}
	return rows
}

// mostlyBad returns the unusable messages among those with new rows if they are the majority, otherwise nil.
func (s *surveyed) mostlyBad(plan *schemas.Plan) *coverage.BadMessages {
	if !s.Bad.Most() || len(plan.Added()) == 0 {
		return nil
	}
	return &s.Bad
}
