package solver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
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
	found, sample := &surveyed{Findings: statistics.NewFindings()}, &accumulate.Sample{}
	sum, err := s.gather(ctx, s.gathering(v, s.surveySum(found, sample)...))
	if err != nil {
		return err
	}
	found.sum = sum
	if s.plan.Chain != nil {
		found.divide(s.plan)
		s.chained.found = found
	}
	if s.chain.Survey != nil { // in a chain, another solver has published it
		return nil
	}
	preparation, err := s.preparation(found, sample, earlier)
	if forgotten := found.PassedOver[coverage.ForgottenRow]; err != nil && forgotten > 0 && errors.As(err, new(*solve.LabelsError)) {
		return fmt.Errorf("%w (%d rows are forgotten)", err, forgotten)
	}
	if err != nil {
		return err
	}
	if _, images := preparation.Find(statistics.TensorImage); !images && s.plan.Augment != (schemas.Augment{}) {
		return errNothingToAugment
	}
	if notice := noticeUntrained(found.Labels, found.Untrained); notice != "" && s.plan.Prepares() {
		event.Notice(s.rec, "%s", notice)
	}
	result := statistics.SurveyResult{
		Identity:    wire.Identity{Kind: statistics.KindPrepare, Run: s.run, Stage: wire.Survey, Parent: v.Parent},
		Quarantined: found.Quarantined, PassedOver: found.PassedOver, Preparation: preparation, Columns: found.Columns,
		Covered: found.Parts, Skipped: found.Skipped, Increments: found.increments,
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
	for split, losses := range statistics.LossesOf(sum.Tensors()) {
		result.Rows[split] = int64(losses.Rows)
	}
	return s.publishWeights(ctx, wire.RecordOf[float32](&result))
}

// surveySum gathers the survey's sums, and to compute a preparation also its sample of rows. Results other than sums go to found.
func (s *Solver) surveySum(found *surveyed, sample *accumulate.Sample) []*part {
	visits := &part{kind: statistics.KindVisit, read: func(id wire.Identity, share *schemas.Share) (*accumulate.Sum, error) {
		visit, err := statistics.SurveyVisitOf(s.inbox.take(id))
		if err == nil {
			err = found.add(visit, share)
		}
		if err != nil {
			return nil, err
		}
		var spans coverage.Spans
		for _, part := range visit.Parts {
			spans = append(spans, part.Spans...)
		}
		return accumulate.NewSum(visit.Covered.Of(spans), visit.Sums), nil
	}}
	parts := []*part{visits}
	if s.plan.Prepares() {
		parts = append(parts, s.samples(sample))
	}
	return parts
}

// preparation returns the preparation computed from the survey's sums, or that of the version that the run starts from,
// which the examples must fit.
func (s *Solver) preparation(found *surveyed, sampled *accumulate.Sample, earlier *model.Model) (wire.Tensors[float32], error) {
	sums := found.sum.Tensors()
	if earlier != nil {
		err := s.checkKept(found, earlier)
		if err == nil && s.updatesSparse() {
			rows := s.chained.start.window.Rows() + int64(statistics.LossesOf(sums)[examples.Train].Rows)
			return solve.ExtendPreparation(s.plan.Prepare, earlier.Preparation(), found.ColumnRows.List(), rows)
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
	classWeights, err := solve.ClassWeights(s.plan.ClassWeight, labels, found.Labels)
	switch {
	case err != nil && !s.plan.Open() && !s.plan.Trial:
		return nil, err
	case err != nil: // rows of the label may follow
		event.Notice(s.rec, "%v", err)
	}
	how := s.plan.Prepare
	var preparation *solve.Preparation
	if found.Sparse {
		rows := int64(statistics.LossesOf(sums)[examples.Train].Rows)
		columns := found.ColumnRows.List()
		found.ColumnRows = nil // frees hundreds of megabytes for ten million columns
		preparation, err = solve.PrepareSparse(how, solve.ColumnSums{Columns: columns, Rows: rows, Labels: labels,
			Task: s.plan.Task(), Numbers: solve.DenseSums{Sums: sums, Shift: found.Shift, Labels: labels, Task: s.plan.Task()}})
	} else {
		preparation, err = solve.PrepareDense(solve.DenseSums{Sums: sums, Shift: found.Shift, Labels: labels, Task: s.plan.Task()},
			how.Scale == stages.ScaleStandard || how.Scale == stages.ScaleRanks, how.PCA)
	}
	if err != nil {
		return nil, err
	}
	preparation.ClassWeights = classWeights
	if s.plan.Task() == examples.Numbers {
		if preparation.TargetCenter, preparation.TargetScale, err = solve.PrepareTargets(sums, found.TargetShift, labels); err != nil {
			return nil, err
		}
	}
	if found.Sparse {
		preparation.Occurring = s.plan.Chain != nil
		return preparation.Tensors(0), nil
	}
	sample := sampled.Rows()
	for _, notice := range noticeFeatures(s.plan.Task(), preparation, found.Columns, sample) {
		event.Notice(s.rec, "%s", notice)
	}
	var learnt, ranks wire.Tensors[float32]
	if slices.ContainsFunc(s.plan.Stages, func(s schemas.Stage) bool { return stages.KindOf(s.Features).Grown }) {
		learnt = stages.LearnBins(found.Columns, sample)
	}
	if how.Scale == stages.ScaleRanks {
		ranks = stages.LearnRanks(found.Columns, sample, preparation.Center, preparation.Scale)
		learnt = append(learnt, ranks...)
	}
	prepared, err := stages.NewPreparation(how, append(preparation.Tensors(0), ranks...))
	if err != nil {
		return nil, err
	}
	rows := prepared.Sample(s.blas, sample)
	tensors := preparation.Tensors(solve.Spread(rows))
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

// learn adds to a preparation the tensors that the stages learn from the sample, whose rows are prepared.
func (s *Solver) learn(tensors wire.Tensors[float32], rows kernel.Dense) (wire.Tensors[float32], error) {
	prepared, err := stages.NewPreparation(s.plan.Prepare, tensors)
	if err != nil {
		return nil, err
	}
	learner := stages.Learner{BLAS: s.blas, Seed: s.plan.Seed, Rows: rows, Covariance: accumulate.Covariance, Whiten: solve.Whiten}
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
func (s *Solver) checkKept(found *surveyed, earlier *model.Model) error {
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

// errOtherPoint means that workers used different points for their moments. Each uses the first rows that it has read: the
// topic has changed during the run.
var errOtherPoint = errors.New("the first examples were replaced while workers read them: their sums are centred at different points")

// surveyed is the findings of the survey in all shares.
type surveyed struct {
	statistics.Findings
	statistics.Common
	Sparse     bool
	sum        *accumulate.Sum
	increments []coverage.Increment // of a full run of a chain
	forgotten  int64                // number of forgotten rows of an update's new increment
}

// add adds the visit to the next share. It returns [errOtherPoint] if the sums of the visit can't be added to the earlier ones.
func (f *surveyed) add(visit *statistics.SurveyVisit, share *schemas.Share) error {
	if !slices.EqualFunc(visit.Parts, share.Partitions, func(c coverage.Coverage, n int) bool { return c.Spans[0].Partition == n }) {
		return fmt.Errorf("%v covers %d partitions, expected %v", visit.Identity, len(visit.Parts), share.Partitions)
	}
	if len(f.Parts) > 0 && (visit.Sparse != f.Sparse || !slices.Equal(visit.Shift, f.Shift) ||
		!slices.Equal(visit.TargetShift, f.TargetShift)) {
		return fmt.Errorf("partitions %d and %d: %w", visit.Partition, f.Parts[0].Spans[0].Partition, errOtherPoint)
	}
	f.Common, f.Sparse = visit.Common, visit.Sparse
	return f.Merge(&visit.Findings)
}

// divide divides the coverage and the forgotten rows of a chain's run by increment.
func (f *surveyed) divide(plan *schemas.Plan) {
	if plan.Update() != nil {
		f.forgotten = takeForgotten(f.sum, 1)[0]
		return
	}
	f.increments = slices.Clone(plan.Chain.Increments)
	if len(f.increments) == 0 {
		f.increments = []coverage.Increment{{Number: plan.Chain.Number, Weight: 1, Until: plan.Chain.Until}}
	}
	forgotten := takeForgotten(f.sum, len(f.increments)) // counted again, with the rows of their spans
	for i := range f.increments {
		of := &f.increments[i]
		of.Forgotten, of.Covered, of.Skipped, of.Uncounted = forgotten[i], nil, nil, false
		if i < len(f.ByIncrement) {
			of.Covered = f.ByIncrement[i]
		}
		for _, skipped := range f.Skipped {
			covered, _ := of.On(skipped.Partition)
			if slices.ContainsFunc(covered.Spans, func(c coverage.Span) bool { return c.From <= skipped.From && skipped.To <= c.To }) {
				of.Skipped = append(of.Skipped, skipped)
			}
		}
	}
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
func (f *surveyed) mostlyBad(plan *schemas.Plan) *coverage.BadMessages {
	if !f.Bad.Most() || len(plan.Added()) == 0 {
		return nil
	}
	return &f.Bad
}

// noticeFeatures returns warnings about the features of a run's sampled rows (n × d): that none varies, or that float32 can't
// distinguish the values of some. columns are nil if unknown.
func noticeFeatures(task examples.Task, p *solve.Preparation, columns examples.Columns, sample kernel.Dense) (notices []string) {
	constant := !slices.ContainsFunc(p.Scale, func(v float32) bool { return v != 0 })
	if constant {
		what := "in the shares of the classes"
		if task == examples.Numbers {
			what = "as the mean"
		}
		notices = append(notices, "no feature varies between the training rows: every row gets the same prediction, "+what)
	}
	coarse := accumulate.FindCoarse(sample)
	const some = 5
	var told []string
	for _, c := range coarse[:min(len(coarse), some)] {
		told = append(told, fmt.Sprintf("%s near %s in steps of %s", nameFeature(columns, c.Feature), plain(c.Mean), plain(c.Step)))
	}
	if more := len(coarse) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("%d more", more))
	}
	if len(told) > 0 {
		notices = append(notices, fmt.Sprintf("float32 can't distinguish the values of some features: %s: subtract a number near "+
			"their mean before writing them, such as the start of the data from times", strings.Join(told, ", ")))
	}
	return notices
}

// plain formats a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// nameFeature names a feature of columns, which may be unknown.
func nameFeature(columns examples.Columns, feature int) string {
	end := 0
	for _, c := range columns {
		if end += c.Features(); feature < end {
			return fmt.Sprintf("column %q", c.Name)
		}
	}
	return fmt.Sprintf("feature %d", feature)
}

// maxUntrainedNamed is the maximum number of labels in a warning.
const maxUntrainedNamed = 5

// noticeUntrained returns a warning about labels that occur only in holdout and test rows, and are never predicted, with
// suggestions of similar labels; "" if there are none.
func noticeUntrained(labelRows, untrained statistics.LabelSet) string {
	var labels, trained, named []string
	rows := 0
	for label := range labelRows {
		if labelRows[label] > 0 {
			trained = append(trained, label)
		}
	}
	slices.Sort(trained)
	for _, label := range slices.Sorted(maps.Keys(untrained)) {
		if labelRows[label] == 0 {
			labels, rows = append(labels, label), rows+int(untrained[label])
		}
	}
	if len(labels) == 0 || len(trained) == 0 {
		return ""
	}
	for _, label := range labels[:min(len(labels), maxUntrainedNamed)] {
		name := value.Quote(label)
		if meant, ok := meantBy(label, trained); ok {
			name += " (is " + value.Quote(meant) + " meant?)"
		}
		named = append(named, name)
	}
	if more := len(labels) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s without training rows, so %s can't be predicted: %s",
		english.PluralWord(len(labels), "a class", "classes"), english.Plural(rows, "holdout or test row", ""), english.WordSeries(named, "and"))
}

// meantBy returns the label that another one may be a variant of, if it is unique: the same number, the same text except
// for case, space and punctuation, or a similar text, in which at most a quarter of the letters differ.
func meantBy(label string, labels []string) (meant string, ok bool) {
	number, err := value.Number(label)
	for _, alike := range []func(other string) bool{
		func(other string) bool {
			v, wrong := value.Number(other)
			return err == nil && wrong == nil && v == number
		},
		func(other string) bool { return trimmed(other) == trimmed(label) },
		func(other string) bool { return lettersOf(other) == lettersOf(label) && lettersOf(label) != "" },
		func(other string) bool {
			return err != nil && 4*option.Edits(other, label) <= min(len(other), len(label))
		},
	} {
		same := slices.DeleteFunc(slices.Clone(labels), func(other string) bool { return !alike(other) })
		if len(same) == 1 {
			return same[0], true
		}
		if len(same) > 1 {
			break // ambiguous
		}
	}
	return "", false
}

// trimmed returns a label in lower case, without surrounding space, punctuation and quotes.
func trimmed(label string) string { return strings.ToLower(strings.Trim(label, " \t.,;:'\"")) }

// lettersOf returns the letters and digits of a label in lower case.
func lettersOf(label string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, label)
}
