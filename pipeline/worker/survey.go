package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// findings is what the survey found in a segment, or in a whole partition, beside its sums.
type findings struct {
	sample      *accumulate.Sample
	labels      accumulate.LabelSet
	columns     accumulate.ColumnRows // of training rows, if they are sparse
	quarantined []event.Quarantined   // of a segment, until they are recorded
	bad         int                   // how many messages are in quarantine
	passedOver  schemas.PassedOver
	skipped     schemas.Spans               // of a chain: messages that do not count
	messages    []schemas.MessageLosses     // of an update
	progress    []schemas.PartitionProgress // of a chain
	unknown     map[string]int64            // rows of labels that are no class
	unusable    schemas.BadMessages         // of the newest increment of a chain
	increments  []schemas.Coverage          // of a full run of a chain: what counts of each
}

// first is what the survey takes from the plan's first usable message, and the shift from the first that has a row that weighs anything.
type first struct {
	shape       *shape          // nil: no message can be used
	shift       []float32       // the means of the features (d) of rows that weigh anything: the point that the moments are taken about; nil: the rows are sparse
	columns     schemas.Columns // nil: the message doesn't say
	columnsText string          // Columns.Text of columns
	image       schemas.Image   // zero: the message doesn't say
}

// first finds the plan's first usable message. If no message can be used, it returns an empty first and a *run.NoExamplesError.
func (w *Worker) first(ctx context.Context) (*first, error) {
	none, found := &run.NoExamplesError{Topic: w.Topics.Examples, Other: w.plan.Topic != ""}, &first{}
	for _, span := range w.plan.Spans {
		if whole, err := w.firstOf(ctx, span, found, none); err != nil || whole {
			return found, err
		}
	}
	if found.shape == nil {
		return found, none
	}
	found.shift = make([]float32, found.shape.width) // no row weighs anything
	return found, nil
}

// firstOf looks in a span for what found does not have yet, and adds the messages that can't be used to none. It reports whether found has all.
func (w *Worker) firstOf(ctx context.Context, span schemas.Span, found *first, none *run.NoExamplesError) (whole bool, err error) {
	replay := w.counting.Replay(span)
	r := w.store.Range(w.Log, w.Topics.Examples, span)
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if reason := replay.AcceptAt(m.Offset, m.Message); reason != "" {
			none.PassedOver.Count(reason, 1)
			continue
		}
		examples, err := decode(w.Codec, w.plan, w.plan.Forgotten, span.Partition, partition.Message{Offset: m.Offset, Message: m.Message}, found.shape)
		if concernsRun(err) {
			return false, fmt.Errorf("examples %s[%d]@%d: %w", w.Topics.Examples, span.Partition, m.Offset, err)
		}
		if err == nil {
			whole, err = w.firstIn(found, examples)
			examples.Release()
			if isOfRun(err) {
				return false, err
			}
		}
		switch {
		case err != nil: // the survey reports the message
			if none.Bad++; none.First == nil {
				none.First = fmt.Errorf("%s[%d]@%d: %w", w.Topics.Examples, span.Partition, m.Offset, w.causeOf(span.Partition, m.Offset, err))
			}
		case whole:
			return true, nil
		}
	}
}

// firstIn is firstOf of the rows of a message.
func (w *Worker) firstIn(found *first, examples *schemas.Examples) (whole bool, err error) {
	columns, err := columnsOf(examples)
	if err != nil || examples.Rows == 0 {
		return false, err
	}
	image, err := imageOf(examples)
	if err != nil {
		return false, err
	}
	if err := stages.CheckRows(w.plan.Prepare, examples.Sparse); err != nil {
		return false, err
	}
	var x kernel.Dense
	var sparse schemas.SparseRows
	readFeatures(&x, &sparse, examples)
	left := leaveOut(w.plan, examples, x, &sparse)
	if len(left) == examples.Rows {
		return false, &overflowError{"features", left}
	}
	if found.shape == nil {
		*found = first{shape: &shape{examples.Sparse, examples.Width}, columns: columns, columnsText: columns.Text(), image: image}
	}
	if examples.Sparse {
		return true, nil
	}
	weighs := false
	for i := range examples.Rows {
		weighs = weighs || examples.Weight(i) != 0 && !slices.Contains(left, i)
	}
	if !weighs {
		return false, nil
	}
	for _, i := range left {
		for j := range x.Row(i) {
			x.Row(i)[j] = float32(math.NaN()) // which no mean counts
		}
	}
	stages.ScaleRows(w.plan.Prepare, x)
	found.shift = means(x, examples.Weight)
	return true, nil
}

// isOfRun reports whether an error says that the plan does not fit its examples.
func isOfRun(err error) bool {
	return errors.As(err, new(*stages.DenseError)) || errors.As(err, new(*stages.SparseError))
}

// means returns the mean of each column over the rows that weigh anything. A missing value (NaN) does not count.
func means(x kernel.Dense, weight func(row int) float32) []float32 {
	sums, counts := make([]float64, x.Cols), make([]int, x.Cols)
	for i := range x.Rows {
		if weight(i) == 0 {
			continue
		}
		for j, v := range x.Row(i) {
			if v == v {
				sums[j] += float64(v)
				counts[j]++
			}
		}
	}
	mean := make([]float32, x.Cols)
	for j, n := range counts {
		if n > 0 {
			mean[j] = float32(sums[j] / float64(n))
		}
	}
	return mean
}

// survey finds the labels, counts the rows of each split, and puts messages that can't be used into quarantine. Unless the run starts
// from a version, whose preparation it keeps, the survey also sums the moments of columns and samples rows. A survey that is made
// again reads all messages again: those in memory lack the bad ones, and the log may have changed.
func (w *Worker) survey(ctx context.Context, v run.Visit, partitions []*partition.State) error {
	for _, p := range partitions {
		p.DropMessages(w.budget)
	}
	first, err := w.surveyFirst(ctx)
	none, _ := errors.AsType[*run.NoExamplesError](err)
	switch {
	case err == nil && !first.shape.sparse:
		err = solve.CheckWidth(w.plan.Prepare.PCA, len(first.shift))
	case err == nil:
	case none != nil && none.Bad > 0 && w.plan.OnBadMessage != schemas.StopOnBadMessage:
		err = nil // the survey puts all messages into quarantine and publishes nothing
	}
	if err != nil {
		return err
	}
	var labels *schemas.Labels
	switch {
	case w.plan.Update() != nil:
		labels = schemas.NewLabels(w.earlier.Labels())
	case len(w.plan.Classes) > 0:
		labels = schemas.NewLabels(w.plan.Classes)
	}
	offered, err := w.offeredModel(ctx)
	if err != nil {
		return err
	}
	progress, sums, found := w.progress(v, partitions), map[*partition.State]*accumulate.Sum{}, map[*partition.State]*findings{}
	bad := &quarantine{client: w.Client, plan: w.plan}
	if err := w.claim(ctx); err != nil {
		return err
	}
	claimed, interval := time.Now(), w.claimInterval()
	s := &scan{
		client: w.Client, store: w.store, counting: w.counting, sequential: w.sequential, whole: true, extent: (*partition.State).Recent, maxWrites: maxWrites,
		process: func() func(context.Context, *load) (*outcome, error) {
			p := &surveyProcessor{Worker: w, first: first, labels: labels, accumulator: accumulate.Accumulator{BLAS: w.blas}, quarantine: bad}
			if w.plan.Update() != nil {
				p.predictor = w.earlier.Predictor(w.blas)
			}
			if offered != nil {
				p.offered = offered.Predictor(w.blas)
			}
			return p.segment
		},
		collect: func(p *partition.State, o *outcome) (func(context.Context) error, error) {
			progress(o.rows)
			for _, q := range o.findings.quarantined {
				w.rec.Record(q)
			}
			o.findings.bad, o.findings.quarantined = len(o.findings.quarantined), nil
			if none != nil {
				return nil, nil
			}
			if sums[p] == nil {
				sums[p], found[p] = o.sum, o.findings
			} else {
				if err := sums[p].Merge(o.sum); err != nil {
					return nil, err
				}
				found[p].sample.Merge(o.findings.sample)
				found[p].labels.Merge(o.findings.labels)
				found[p].columns.Merge(&o.findings.columns)
				found[p].bad += o.findings.bad
				found[p].passedOver.Add(o.findings.passedOver)
				found[p].skipped = append(found[p].skipped, o.findings.skipped...)
				found[p].messages = append(found[p].messages, o.findings.messages...)
				found[p].progress = o.findings.progress
				found[p].unusable.Merge(o.findings.unusable)
				for label, rows := range o.findings.unknown {
					found[p].unknown[label] += rows
				}
				for i := range o.findings.increments {
					if err := found[p].increments[i].Merge(o.findings.increments[i]); err != nil {
						return nil, err
					}
				}
			}
			if err := solve.CheckClasses(len(found[p].labels)); err != nil {
				return nil, err
			}
			if !p.LastRecent(o.segment) {
				if time.Since(claimed) < interval {
					return nil, nil
				}
				claimed = time.Now()
				return w.claim, nil
			}
			sum, all := sums[p], found[p]
			return func(ctx context.Context) error { return w.publishSurvey(ctx, v, p, sum, all, first) }, nil
		},
	}
	if err := s.run(ctx, partitions); err != nil || none == nil {
		return err
	}
	return none
}

// claim says on the statistics topic that this worker surveys.
func (w *Worker) claim(ctx context.Context) error {
	c := schemas.Claim{Run: w.run}
	_, err := w.Log.Append(ctx, w.Topics.Statistics, w.statisticsOf(w.partitions[0].Partition()), c.Message())
	return err
}

// claimInterval returns after how long a worker that still surveys says so again: often enough that nobody gives the run up.
func (w *Worker) claimInterval() time.Duration {
	if w.GiveUp == 0 {
		return run.MaxPatience
	}
	return min(run.MaxPatience, w.GiveUp/4)
}

// surveyProcessor surveys segments, in one goroutine.
type surveyProcessor struct {
	*Worker
	*first
	labels      *schemas.Labels // the plan's classes; nil: any label is a class
	accumulator accumulate.Accumulator
	x           kernel.Dense
	features    schemas.SparseRows
	quarantine  *quarantine
	predictor   *model.Predictor // of the version before an update; nil in a full run
	offered     *model.Predictor // of the version that subscribers have; nil: there is no gate
	loss        []float32
	predicted   []int32
	newest      bool     // the segment is of the newest increment
	leftOut     []int    // rows of a message that overflow
	reasons     []string // why rows of a message are in quarantine
}

// segment surveys one segment.
func (p *surveyProcessor) segment(ctx context.Context, l *load) (*outcome, error) {
	number := l.partition.Partition()
	found := &findings{sample: &accumulate.Sample{Max: sampleRows(p.plan.Spans, l.partition.Span())}, labels: accumulate.LabelSet{}, passedOver: l.passedOver, unknown: map[string]int64{}}
	p.accumulator.Begin(len(p.shift), 0, p.plan.Prepares() && p.plan.Prepare.PCA > 0)
	sum := p.accumulator.Sum()
	p.newest = l.segment().Increment == p.newestPlace()
	var bad, some []schemas.Quarantined // messages of which no row can be used, and of which some rows can't
	good, counted := l.messages[:0], make([]partition.Counted, 0, len(l.messages))
	for _, m := range l.messages {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		before := len(found.unknown)
		p.leftOut, p.reasons = nil, nil
		checksum, err := p.message(sum, found, number, m)
		switch {
		case err == nil:
			if len(found.unknown) > before { // the first rows of a label show where it comes from
				p.reasons = append(p.reasons, unknownReason(found.unknown))
			}
			if len(p.reasons) > 0 {
				some = append(some, p.quarantined(number, m, strings.Join(p.reasons, "; ")))
			}
			good = append(good, m)
			counted = append(counted, partition.Counted{Offset: m.Offset, Checksum: checksum})
		case concernsRun(err) || p.plan.OnBadMessage == schemas.StopOnBadMessage:
			return nil, fmt.Errorf("examples %s[%d]@%d: %w", p.Topics.Examples, number, m.Offset, p.causeOf(number, m.Offset, err))
		default:
			bad = append(bad, p.quarantined(number, m, schemas.QuarantineReason(p.causeOf(number, m.Offset, err))))
		}
	}
	if p.plan.Chain != nil {
		found.skipped, found.progress = skippedSpans(number, l.skipped, bad), l.progress
		if p.newest {
			found.unusable.Usable(len(good))
			for _, q := range bad {
				found.unusable.Bad(number, q.Offset, q.Reason)
			}
		}
	}
	for _, q := range slices.Concat(bad, some) {
		found.quarantined = append(found.quarantined, event.Quarantined{Partition: number, Offset: q.Offset, Reason: q.Reason})
	}
	if err := p.quarantine.put(ctx, number, p.quarantine.choose(l.segment(), bad, some)); err != nil {
		return nil, err
	}
	clear(l.messages[len(good):])
	l.messages = good
	sum = p.accumulator.End()
	sum.Spans = schemas.Spans{l.segment().Span}
	if p.plan.Chain != nil && p.plan.Update() == nil {
		found.increments = make([]schemas.Coverage, max(len(p.plan.Chain.Increments), 1))
		found.increments[l.segment().Increment] = sum.Coverage
	}
	l.segment().SetCounted(counted)
	l.segment().KeepMessages(l.messages, p.budget) // the first visit needs the same messages
	return &outcome{rows: sum.Rows, sum: sum, findings: found}, nil
}

// message adds one message to the sums and the findings, and returns its checksum. The error says why the message can't be used. Then
// nothing is added.
func (p *surveyProcessor) message(sum *accumulate.Sum, found *findings, number int, m partition.Message) (checksum uint64, err error) {
	examples, err := decode(p.Codec, p.plan, p.plan.Forgotten, number, m, p.shape)
	if err != nil {
		return 0, err
	}
	defer examples.Release()
	if err := p.checkColumns(examples); err != nil {
		return 0, err
	}
	if err := p.checkImage(examples); err != nil {
		return 0, err
	}
	readFeatures(&p.x, &p.features, examples)
	overflowing := leaveOut(p.plan, examples, p.x, &p.features)
	if p.shape == nil {
		if len(overflowing) > 0 {
			return 0, &overflowError{"features", overflowing}
		}
		return 0, nil // no message of the run has rows
	}
	if err := p.noteOverflow(found, "features", overflowing); err != nil {
		return 0, err
	}
	rows, fitted := rowsOf(p.plan, number, m.Offset, examples)
	var numbers []float64
	switch {
	case p.plan.Task() == schemas.Numbers:
		if numbers, err = numbersOf(p.plan, examples, rows); err != nil {
			return 0, err
		}
	case p.plan.Task() == schemas.SeveralLabels && p.labels != nil:
		if err := setsOf(p.plan, examples, &rows, p.labels, func(label string) { found.unknown[label]++ }); err != nil {
			return 0, err
		}
	case p.labels != nil:
		if err := labelsOf(p.plan, examples, rows, p.labels, func(label string) { found.unknown[label]++ }); err != nil {
			return 0, err
		}
	}
	for i := range rows.Classes {
		if numbers != nil {
			if rows.Classes[i] == schemas.Unlabelled {
				fitted[i] = 0
			}
			continue
		}
		if !examples.Labelled(i) || p.labels != nil && rows.Classes[i] == schemas.Unlabelled {
			rows.Classes[i], fitted[i] = schemas.Unlabelled, 0
		} else if p.labels == nil || p.balances() {
			rows := int64(0)
			if fitted[i] > 0 {
				rows = 1
			}
			for label := range examples.Labels(i) {
				found.labels.Add(label, rows)
			}
		}
	}
	if p.plan.Prepares() {
		if p.shape.sparse {
			p.countColumns(found, fitted)
		} else {
			p.moments(sum, found, number, m.Offset, fitted)
		}
		if numbers != nil {
			sum.AddTargets(numbers, len(p.plan.Targets), fitted)
		}
	}
	n := examples.Rows
	if p.offered != nil && p.newest {
		p.judge(sum, examples, rows, numbers)
	}
	if p.predictor != nil {
		if numbers != nil {
			targets, overflowed := standardized(p.predictor.Model(), numbers, len(p.plan.Targets))
			rows.Targets = targets
			if err := p.leaveOut(found, "standardized targets", overflowed, rows); err != nil {
				return 0, err
			}
		}
		if err := p.score(sum, found, m.Offset, examples, rows); err != nil {
			return 0, err
		}
	} else {
		sum.AddRows(rows) // there are no scores yet
	}
	p.plan.Forgotten.In(number, m.Offset, n, func(first, end int) { found.passedOver.Count(schemas.ForgottenRow, int64(end-first)) })
	checksum = m.Checksum(number, n)
	sum.Count(n, checksum)
	return checksum, nil
}

// balances reports whether the run finds weights of classes by their numbers of rows. A run that starts from a version keeps the version's.
func (w *Worker) balances() bool { return w.plan.ClassWeight.Balanced && w.plan.Prepares() }

// checkColumns returns an error if a message has other columns than the run's first: as a model knows a feature by its place, its
// features can't be used. A message that does not say its columns is taken to have the same.
func (p *surveyProcessor) checkColumns(examples *schemas.Examples) error {
	if text := examples.Columns(); text == "" || text == p.columnsText {
		return nil
	}
	columns, err := columnsOf(examples)
	if err != nil || p.columns == nil {
		return err
	}
	if difference := columns.Difference(p.columns); difference != "" {
		return fmt.Errorf("%w: %s, as in the first message of the run", schemas.ErrDamaged, difference)
	}
	return nil
}

// columnsOf returns the columns that a message says; nil if it says none.
func columnsOf(examples *schemas.Examples) (schemas.Columns, error) {
	columns, err := schemas.ParseColumns(examples.Columns())
	if n := columns.Features(); err == nil && columns != nil && n != examples.Width {
		err = fmt.Errorf("%w: %d features, its columns have %d", schemas.ErrDamaged, examples.Width, n)
	}
	return columns, err
}

// countColumns counts in which training rows the columns are not 0.
func (p *surveyProcessor) countColumns(found *findings, fitted []float32) {
	for i, w := range fitted {
		if w > 0 {
			indices, _ := p.features.Row(i)
			found.columns.Add(indices)
		}
	}
}

// checkImage returns an error if a message has images of another shape than the run's first. A message that does not say their shape is
// taken to have the same.
func (p *surveyProcessor) checkImage(examples *schemas.Examples) error {
	text := examples.Image()
	if text == "" || text == p.image.Text() {
		return nil
	}
	image, err := imageOf(examples)
	if err == nil && p.image != (schemas.Image{}) && image != p.image {
		err = fmt.Errorf("%w: images of %v, those of the first message of the run are of %v", schemas.ErrDamaged, image, p.image)
	}
	return err
}

// imageOf returns the shape of images that a message says; zero if it says none.
func imageOf(examples *schemas.Examples) (schemas.Image, error) {
	image, err := schemas.ParseImage(examples.Image())
	if n := image.Size(); err == nil && n > 0 && n != examples.Width {
		err = fmt.Errorf("%w: %d features, its images have %d", schemas.ErrDamaged, examples.Width, n)
	}
	return image, err
}

// moments adds what a preparation is made of: the sample of rows, the moments of columns, and the Gram matrix if the plan asks for
// principal components.
func (p *surveyProcessor) moments(sum *accumulate.Sum, found *findings, number int, offset int64, fitted []float32) {
	for i, w := range fitted {
		if w > 0 {
			found.sample.Offer(schemas.Hash(p.plan.Seed, uint64(number), uint64(offset), uint64(i)), p.x.Row(i))
		}
	}
	stages.ScaleRows(p.plan.Prepare, p.x)
	sum.AddColumns(p.x, p.shift, fitted)
	if p.plan.Prepare.PCA > 0 {
		p.accumulator.AddGram(p.x, fitted)
	}
}

// sampleRows returns how many rows of a span to sample: its share of the rows of the whole survey's sample, by its offsets, and
// six standard deviations more. If every partition sent a whole sample, a thousand partitions would send gigabytes.
func sampleRows(all schemas.Spans, span schemas.Span) int {
	offsets := int64(0)
	for _, s := range all {
		offsets += s.To - s.From
	}
	part := accumulate.SampleRows * float64(span.To-span.From) / float64(max(offsets, 1))
	return min(int(math.Ceil(part+6*math.Sqrt(part)))+8, accumulate.SampleRows)
}

// publishSurvey writes what the survey found in a partition: the sums, and for a preparation the sample, and the Gram matrix if the
// plan asks for principal components.
func (w *Worker) publishSurvey(ctx context.Context, v run.Visit, p *partition.State, sum *accumulate.Sum, found *findings, first *first) error {
	if w.plan.Prepares() {
		if err := publish(ctx, w, found.sample.Record(w.identity(schemas.KindSample, v, p)).Record()); err != nil {
			return err
		}
	}
	if w.plan.Prepares() && w.plan.Prepare.PCA > 0 {
		sum.Field(schemas.FieldGram, len(first.shift)*(len(first.shift)+1)/2) // publish a zero matrix even without rows
	}
	gram, hasGram := sum.Take(schemas.FieldGram)
	r := schemas.SurveyVisit{
		Visit: schemas.Visit{Identity: w.identity(schemas.KindVisit, v, p), Covered: sum.Coverage, Sums: sum.Tensors()},
		Shift: first.shift, Sparse: first.shape.sparse, ColumnRows: found.columns.Record(), Columns: first.columns, Image: first.image, Labels: found.labels.Text(), Quarantined: int64(found.bad), PassedOver: found.passedOver,
		Skipped: found.skipped, Progress: found.progress, Unknown: labelRows(found.unknown), Bad: found.unusable, Messages: found.messages, Increments: found.increments,
	}
	if w.balances() {
		r.LabelRows = found.labels.Rows()
	}
	if err := publish(ctx, w, r.Record()); err != nil || !hasGram {
		return err
	}
	g := schemas.Gram{Identity: w.identity(schemas.KindGram, v, p), Matrix: gram.Data}
	return publish(ctx, w, g.ExactRecord())
}
