package visit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

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
)

// Survey is the survey of a run, shared by its goroutines. It is immutable while they run.
type Survey struct {
	*Run
	offered    *model.Model // the version for subscribers; nil: there is no gate
	first      *first
	none       error            // a *protocol.NoExamplesError; nil: some message is usable
	labels     *examples.Labels // classes of the plan; nil: any label is a class
	quarantine *protocol.Quarantine
}

// NewSurvey starts a survey: it determines the common properties of all messages. Offered is the version for subscribers, if the run has a
// gate. The error is a *[protocol.NoExamplesError] if no message is usable, unless there are messages to quarantine: then [Survey.Err]
// returns it.
func NewSurvey(ctx context.Context, run *Run, offered *model.Model) (*Survey, error) {
	s := &Survey{Run: run, offered: offered, quarantine: newQuarantine(run)}
	var err error
	s.first, err = s.findFirst(ctx)
	none, _ := errors.AsType[*protocol.NoExamplesError](err)
	switch {
	case err == nil && !s.first.shape.Sparse:
		err = solve.CheckWidth(run.Plan.Prepare.PCA, len(s.first.Shift))
	case none != nil && none.Bad > 0 && run.Plan.OnBadMessage != schemas.StopOnBadMessage:
		err, s.none = nil, none
	}
	switch {
	case run.Plan.Update() != nil:
		s.labels = examples.NewLabels(run.Earlier.Labels())
	case len(run.Plan.Classes) > 0:
		s.labels = examples.NewLabels(run.Plan.Classes)
	}
	return s, err
}

// Err returns a *[protocol.NoExamplesError] if no message is usable: the survey then finds nothing, but quarantines all
// messages.
func (s *Survey) Err() error { return s.none }

// Processor returns a function that surveys segments in one goroutine.
func (s *Survey) Processor() Process {
	p := &surveyor{Survey: s, first: s.first, accumulator: accumulate.Accumulator{BLAS: s.BLAS}}
	if s.Plan.Update() != nil {
		p.predictor = s.Earlier.Predictor(s.BLAS)
	}
	if s.offered != nil {
		p.offered = s.offered.Predictor(s.BLAS)
	}
	return p.segment
}

// Records returns the records of the survey of a share, whose outcome must not be used afterwards. A run that keeps the preparation of a
// version has no sample of rows. identity returns the identity of the record of a kind.
func (s *Survey) Records(o *Outcome, identity func(wire.Kind) wire.Identity) (sample *wire.Record[float32], visit *wire.Record[float64]) {
	first, f := s.first, o.Found
	if s.Plan.Prepares() {
		sample = o.Sample.Record(identity(statistics.KindSample)).Record()
	}
	if n := len(first.Shift); s.Plan.Prepares() && s.Plan.Prepare.PCA > 0 {
		o.Sum.Field(statistics.FieldGram, n*(n+1)/2) // publish a zero matrix even without rows
	}
	maps.DeleteFunc(f.Untrained, func(label string, rows int64) bool { return rows == 0 || f.Labels[label] > 0 })
	v := statistics.SurveyVisit{
		Visit:  statistics.Visit{Identity: identity(statistics.KindVisit), Covered: o.Sum.Coverage.Summary(), Sums: o.Sum.Tensors()},
		Common: first.Common, Findings: *f, Sparse: first.shape.Sparse,
	}
	return sample, v.Record()
}

// skippedSpans returns the messages of a segment that do not count: those passed over, and those in quarantine.
func skippedSpans(number int, offsets []int64, bad []schemas.Quarantined) (spans coverage.Spans) {
	for _, at := range offsets {
		spans = append(spans, coverage.Span{Partition: number, From: at, To: at + 1})
	}
	for _, q := range bad {
		spans = append(spans, coverage.Span{Partition: number, From: q.Offset, To: q.Offset + 1})
	}
	return spans.Merged()
}

// unknownReason returns the reason for rows with unknown labels, which a chain excludes until there are enough of them.
func unknownReason(unknown statistics.LabelSet) string {
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(unknown)) {
		labels = append(labels, fmt.Sprintf("%q", label))
	}
	return fmt.Sprintf("rows of %s %s are left out: no class of the version before", english.PluralWord(len(labels), "label", ""),
		named(labels))
}

// surveyor surveys segments in one goroutine.
type surveyor struct {
	*Survey
	*first
	accumulator accumulate.Accumulator
	sum         *accumulate.Sum // of the segment, as are the next
	sample      *accumulate.Sample
	found       *statistics.Findings
	x           kernel.Dense
	lacking     []int32
	predictor   *model.Predictor // of the version before an update; nil in a full run
	offered     *model.Predictor // of the version for subscribers; nil: there is no gate
	loss        []float32
	predicted   []int32
	judged      accumulate.Chosen
	newest      bool     // the segment belongs to the newest increment
	leftOut     []int    // overflowing rows of a message
	reasons     []string // reasons why rows of a message are quarantined
}

// segment surveys one segment.
func (p *surveyor) segment(ctx context.Context, l *Load) (*Outcome, error) {
	if err := p.checkRead(l); err != nil {
		return nil, err
	}
	number := l.Segment().Span.Partition
	found := statistics.NewFindings()
	found.PassedOver = l.PassedOver
	p.sample, p.found = &accumulate.Sample{Max: sampleRows(p.Plan.Spans, l.Share)}, &found
	p.accumulator.Begin(len(p.Shift), 0, p.Plan.Prepares() && p.Plan.Prepare.PCA > 0)
	p.sum = p.accumulator.Sum()
	p.newest = l.Segment().Increment == newestJudged(p.Plan)
	var bad, some []schemas.Quarantined // unusable messages, and messages with unusable rows
	messages := make([]counted, 0, len(l.Messages))
	for _, m := range l.Messages {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		before := len(found.Unknown)
		p.leftOut, p.reasons = nil, nil
		checksum, err := p.message(number, m)
		switch {
		case err == nil:
			if len(found.Unknown) > before { // the first rows of a label show its origin
				p.reasons = append(p.reasons, unknownReason(found.Unknown))
			}
			if len(p.reasons) > 0 {
				some = append(some, p.quarantined(number, m, strings.Join(p.reasons, "; ")))
			}
			messages = append(messages, counted{m.Offset, checksum})
		case concernsRun(err) || p.Plan.OnBadMessage == schemas.StopOnBadMessage:
			return nil, fmt.Errorf("examples %s[%d]@%d: %w", p.Client.Topics.Examples, number, m.Offset, p.shownCause(number, m.Offset, err))
		default:
			bad = append(bad, p.quarantined(number, m, schemas.QuarantineReason(p.causeOf(number, m.Offset, err))))
		}
	}
	found.Quarantined = int64(len(bad) + len(some))
	if p.Plan.Chain != nil {
		found.Skipped, found.Progress = skippedSpans(number, l.Skipped, bad), l.Progress
		if p.newest {
			found.Bad.Usable(len(messages))
			for _, q := range bad {
				found.Bad.Bad(number, q.Offset, schemas.WithoutValues(q.Reason)) // for reports
			}
		}
	}
	o := &Outcome{Found: &found, Sample: p.sample}
	for _, q := range slices.Concat(bad, some) {
		o.Events = append(o.Events, event.Quarantined{Partition: number, Offset: q.Offset, Reason: q.Reason})
	}
	if _, err := p.quarantine.Put(ctx, p.choose(l.Segment(), bad, some)); err != nil {
		return nil, err
	}
	o.Sum = p.accumulator.End()
	o.Sum.Pack()
	o.Sum.Spans = coverage.Spans{l.Segment().Span}
	found.Parts = []coverage.Coverage{o.Sum.Coverage}
	if p.Plan.Chain != nil && p.Plan.Update() == nil {
		found.ByIncrement = make([][]coverage.Coverage, max(len(p.Plan.Chain.Increments), 1))
		found.ByIncrement[l.Segment().Increment] = []coverage.Coverage{o.Sum.Coverage}
	}
	if n := found.PassedOver[coverage.ForgottenRow]; n > 0 && p.Plan.Chain != nil {
		o.Sum.Field(statistics.FieldForgotten, max(len(p.Plan.Chain.Increments), 1))[l.Segment().Increment] = float64(n)
	}
	l.Segment().counted = messages
	return o, nil
}

// message adds a message to the findings, and returns its checksum. The error is the reason why the message is unusable;
// nothing is added then.
func (p *surveyor) message(number int, m protocol.Message) (checksum uint64, err error) {
	batch, err := p.decode(p.Plan.Forgotten, number, m, p.shape)
	if err != nil {
		return 0, err
	}
	if err := p.checkColumns(batch); err != nil {
		return 0, err
	}
	if err := p.checkImage(batch); err != nil {
		return 0, err
	}
	readFeatures(&p.x, batch)
	overflowing := leaveOutOverflows(p.Plan, batch, p.x)
	if p.shape == nil {
		if len(overflowing) > 0 {
			return 0, overflowError("features", overflowing)
		}
		return 0, nil // no message of the run has rows
	}
	if err := p.noteOverflow("features", overflowing); err != nil {
		return 0, err
	}
	rows := RowsOf(p.Plan, number, m.Offset, batch)
	numbers, err := readTruth(p.Plan, p.Plan.Open(), batch, &rows, p.labels, func(label string) { p.found.Unknown[label]++ })
	if err != nil {
		return 0, err
	}
	for i := range rows.Classes {
		if numbers != nil {
			if rows.Classes[i] == examples.Unlabelled {
				rows.Fitted[i] = 0
			}
			continue
		}
		if !batch.Labelled(i) || p.labels != nil && rows.Classes[i] < 0 {
			rows.Classes[i], rows.Fitted[i] = examples.Unlabelled, 0
		} else if p.labels == nil || p.Plan.ClassWeight.Balanced && p.Plan.Prepares() { // a version keeps its class weights
			trained := int64(0)
			if rows.Fitted[i] > 0 {
				trained = 1
			}
			for label := range batch.Labels(i) {
				if p.labels != nil {
					label = p.labels.Spelt(label)
				}
				p.found.Labels.Add(label, trained)
				p.found.Untrained[label] += 1 - trained
			}
		}
	}
	if numbers == nil {
		p.found.PassedOver.Count(coverage.NoLabel, batch.WithoutLabel())
	}
	if p.Plan.Prepares() {
		if p.shape.Sparse {
			p.countColumns(batch.Sparse, rows.Fitted)
			if d := len(p.Shift); d > 0 {
				p.x.Reshape(batch.Rows, d)
				batch.Sparse.Leading(p.x.Data, d)
				p.sum.AddColumns(p.x, p.Shift, rows.Fitted)
			}
		} else {
			p.moments(number, m.Offset, rows.Fitted)
		}
		if numbers != nil {
			p.sum.AddTargets(numbers, p.TargetShift, rows.Fitted)
		}
	}
	if u := p.Plan.Update(); u != nil && u.Sparse {
		p.countColumns(batch.Sparse, rows.Fitted)
	}
	n := batch.Rows
	if p.offered != nil && p.newest {
		p.judge(m.Offset, batch, rows, numbers)
	}
	if p.predictor != nil {
		if numbers != nil {
			targets, overflowed := standardizeTargets(p.predictor.Model(), numbers, len(p.Plan.Targets))
			rows.Targets = targets
			if err := p.leaveOut("standardized targets", overflowed, rows); err != nil {
				return 0, err
			}
		}
		if err := p.score(number, m.Offset, batch, rows); err != nil {
			return 0, err
		}
	} else {
		p.sum.AddRows(rows) // there are no scores yet
	}
	p.Plan.Forgotten.In(number, m.Offset, n, func(first, end int) { p.found.PassedOver.Count(coverage.ForgottenRow, int64(end-first)) })
	checksum = Checksum(m, number, n)
	p.sum.Count(n, checksum)
	return checksum, nil
}

// moments adds the data for a preparation: the sample of rows, the moments of columns, and the Gram matrix if the plan has
// principal components.
func (p *surveyor) moments(number int, offset int64, fitted []float32) {
	for i, w := range fitted {
		if w > 0 {
			p.sample.Offer(wire.Hash(p.Plan.Seed, uint64(number), uint64(offset), uint64(i)), p.x.Row(i))
		}
	}
	stages.ScaleRows(p.Plan.Prepare, p.x)
	p.sum.AddColumns(p.x, p.Shift, fitted)
	if p.Plan.Prepare.PCA > 0 {
		p.accumulator.AddGram(p.x, fitted)
	}
}

// sampleRows returns the number of rows to sample from a share: its part of the survey's sample by offsets, plus six standard
// deviations.
func sampleRows(all coverage.Spans, share *Share) int {
	offsets, own := int64(0), int64(0)
	for _, s := range all {
		offsets += s.Len()
	}
	for _, part := range share.Parts {
		own += part.Span.Len()
	}
	part := accumulate.SampleRows * float64(own) / float64(max(offsets, 1))
	return min(int(math.Ceil(part+6*math.Sqrt(part)))+8, accumulate.SampleRows)
}

// countColumns counts, for each column, the training rows in which it is not 0.
func (p *surveyor) countColumns(rows *examples.SparseRows, fitted []float32) {
	for i, w := range fitted {
		if w > 0 {
			indices, _ := rows.Row(i)
			if p.predictor != nil { // columns that the previous version lacks
				p.lacking = p.predictor.Model().Lacking(p.lacking[:0], indices)
				indices = p.lacking
			}
			p.found.ColumnRows.Add(indices)
		}
	}
}

// score predicts the rows of a message with the previous version, and adds the losses: each row is scored before it is
// trained on. The error means that the run is configured to stop at rows that overflow.
func (p *surveyor) score(number int, offset int64, batch *examples.Rows, rows accumulate.Rows) error {
	n := batch.Rows
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	probabilities := p.predictor.Measure(batch, rows.Truth, p.loss, p.predicted)
	if err := p.leaveOut("inputs, blocks or scores of the version before", p.predictor.Overflowed(), rows); err != nil {
		return err
	}
	p.sum.AddLosses(rows, p.loss, p.predicted, probabilities)
	p.sum.AddQuality(rows, probabilities, p.predicted)
	p.sum.AddRanking(rows, probabilities, p.predicted, p.predictor.Model().Manifest.Threshold)
	message := statistics.MessageLosses{Partition: number, Offset: offset}
	for i, class := range rows.Classes {
		if class < 0 || rows.Splits[i] != examples.Train {
			continue
		}
		w := float64(rows.Weights[i])
		message.Rows++
		message.Weight += w
		message.Loss += w * float64(p.loss[i])
		message.Errors += w * min(rows.Wrong(i, p.predicted, probabilities), 1) // the error of a target may be larger
		if served, ok := batch.Answer(i); ok && p.Plan.Task() == examples.OneLabel {
			one := statistics.ServedLosses{Version: served.Version, Weight: w, Rows: 1}
			if p.labels.Spelt(served.Label) != p.labels.Text()[class] {
				one.Errors = w
			}
			p.found.Served = statistics.AddServed(p.found.Served, one)
		}
	}
	if message.Rows > 0 {
		p.found.Messages = append(p.found.Messages, message)
	}
	return nil
}
