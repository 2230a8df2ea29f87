package pipeline

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// What to do with a message that can't be used.
const (
	OnBadQuarantine = "quarantine"
	OnBadStop       = "stop"
)

// found is what the survey found in a segment, or in all of a share.
type found struct {
	sample      *accumulate.Sample
	labels      accumulate.LabelSet
	quarantined []Quarantined // of a segment
	bad         int           // how many they are in all
}

// shift is the mean of the plan's first usable message, which moments are
// taken about, and how many features there are.
func (w *worker) shift(ctx context.Context) ([]float32, error) {
	for _, span := range w.plan.Spans {
		if shift, err := w.shiftOf(ctx, span); err != nil || shift != nil {
			return shift, err
		}
	}
	return nil, &NoExamplesError{w.examples}
}

// shiftOf is the mean of a span's first usable message; nil if it has none.
func (w *worker) shiftOf(ctx context.Context, span schemas.Span) ([]float32, error) {
	replay := ingest.NewReplay(w.plan, span.Partition)
	r := w.log.Range(w.examples, span.Partition, span.From, span.To)
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		first := raw{m.offset, m.Message}
		if !replay.Accept(first.message) {
			continue
		}
		examples, err := decode(w.codec, w.plan, first, 0)
		if fatal(err) {
			return nil, fmt.Errorf("examples %s[%d]@%d: %w", w.examples, span.Partition, m.offset, err)
		}
		if err != nil {
			continue // it is for the survey to say so
		}
		var x kernel.Dense
		features(&x, examples, examples.Width)
		examples.Release()
		if x.Rows == 0 {
			continue
		}
		if w.plan.Prepare.Scale == stages.ScaleUnit {
			stages.UnitRows(x)
		}
		return means(x), nil
	}
}

// means of the columns, a missing value (NaN) not counting.
func means(x kernel.Dense) []float32 {
	sums, counts := make([]float64, x.Cols), make([]int, x.Cols)
	for i := range x.Rows {
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

// surveyBench works on one segment of the survey at a time.
type surveyBench struct {
	*worker
	shift       []float32
	labels      *schemas.Labels // the plan's classes; nil: all are taken
	accumulator accumulate.Accumulator
	x           kernel.Dense
	quarantine  *quarantine
}

// survey takes moments, samples rows, finds the labels, and puts into
// quarantine what can't be used. Made again it reads all messages again: what
// is in memory lacks the bad ones, and is no evidence of what the log has.
func (w *worker) survey(ctx context.Context, v visit, shares []*share) error {
	for _, s := range shares {
		for _, segment := range s.segments {
			segment.drop(&w.budget)
		}
	}
	shift, err := w.shift(ctx)
	if err != nil {
		return err
	}
	if err := solve.CheckWidth(w.plan.Prepare.PCA, len(shift)); err != nil {
		return err
	}
	var labels *schemas.Labels
	if len(w.plan.Classes) > 0 {
		labels = schemas.NewLabels(w.plan.Classes)
	}
	progress, sums, all := w.progress(v, shares), map[*share]*accumulate.Sum{}, map[*share]*found{}
	bad := &quarantine{desk: w.desk, plan: w.plan}
	s := &sweep{
		desk: w.desk, plan: w.plan, whole: true, writers: publishers,
		bench: func() func(context.Context, *load) (*outcome, error) {
			b := &surveyBench{worker: w, shift: shift, labels: labels, accumulator: accumulate.Accumulator{BLAS: w.blas}, quarantine: bad}
			return b.segment
		},
		collect: func(s *share, o *outcome) (func(context.Context) error, error) {
			progress(o.rows)
			for _, q := range o.found.quarantined {
				w.rec.Record(q)
			}
			o.found.bad, o.found.quarantined = len(o.found.quarantined), nil
			if sums[s] == nil {
				sums[s], all[s] = o.sum, o.found
			} else {
				if err := sums[s].Merge(o.sum); err != nil {
					return nil, err
				}
				all[s].sample.Merge(o.found.sample)
				all[s].labels.Merge(o.found.labels)
				all[s].bad += o.found.bad
			}
			if err := solve.CheckClasses(len(all[s].labels)); err != nil {
				return nil, err
			}
			if o.at < len(s.segments)-1 {
				return nil, nil
			}
			sum, found := sums[s], all[s]
			return func(ctx context.Context) error { return w.publishSurvey(ctx, v, s, sum, found, shift) }, nil
		},
	}
	return w.sweep(ctx, s, shares)
}

func (b *surveyBench) segment(ctx context.Context, l *load) (*outcome, error) {
	partition := l.share.span.Partition
	result := &found{sample: &accumulate.Sample{Max: sampleRows(b.plan.Spans, l.share.span)}, labels: accumulate.LabelSet{}}
	b.accumulator.Begin(len(b.shift), 0, b.plan.Prepare.PCA > 0)
	sum := b.accumulator.Sum()
	var bad []unusable
	good := l.raw[:0]
	for _, r := range l.raw {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err := b.message(sum, result, partition, r)
		switch {
		case err == nil:
			good = append(good, r)
		case fatal(err) || b.plan.OnBadMessage == OnBadStop:
			return nil, fmt.Errorf("examples %s[%d]@%d: %w", b.examples, partition, r.offset, err)
		default:
			bad = append(bad, unusable{r, reasonOf(err)})
		}
	}
	if err := b.quarantine.put(ctx, partition, bad); err != nil {
		return nil, err
	}
	for _, u := range bad {
		result.quarantined = append(result.quarantined, Quarantined{Partition: partition, Offset: u.offset, Reason: u.reason})
	}
	clear(l.raw[len(good):])
	l.raw = good
	sum = b.accumulator.End()
	sum.Spans = schemas.Spans{l.segment().span}
	l.segment().keep(l.raw, &b.budget) // the first visit reads the same
	return &outcome{rows: sum.Rows, sum: sum, found: result}, nil
}

func (b *surveyBench) message(sum *accumulate.Sum, result *found, partition int, r raw) error {
	examples, err := decode(b.codec, b.plan, r, len(b.shift))
	if err != nil {
		return err
	}
	defer examples.Release()
	rows, fitted := rowsOf(b.plan, partition, r.offset, examples)
	if b.labels != nil {
		if err := examples.Classes(rows.Classes, b.labels); err != nil {
			return err
		}
	}
	for i := range rows.Classes {
		if !examples.Labelled(i) {
			rows.Classes[i], fitted[i] = schemas.Unlabelled, 0
		} else if b.labels == nil {
			result.labels[examples.Label(i)] = struct{}{}
		}
	}
	n := examples.Rows
	features(&b.x, examples, len(b.shift))
	for i, w := range fitted {
		if w > 0 {
			result.sample.Offer(schemas.Hash(b.plan.Seed, uint64(partition), uint64(r.offset), uint64(i)), b.x.Row(i))
		}
	}
	if b.plan.Prepare.Scale == stages.ScaleUnit {
		stages.UnitRows(b.x)
	}
	sum.AddColumns(b.x, b.shift, fitted)
	if b.plan.Prepare.PCA > 0 {
		b.accumulator.AddGram(b.x, fitted)
	}
	// no scores yet: the rows and weights of each split, none of them wrong
	sum.AddLosses(rows, make([]float32, n), rows.Classes)
	sum.Count(n, r.checksum(partition, n))
	return nil
}

// sampleRows is how many rows of a span may be among the smallest draws of the
// whole survey: its part of them and six standard deviations, by its offsets.
// A thousand partitions would send gigabytes of samples otherwise.
func sampleRows(all schemas.Spans, span schemas.Span) int {
	offsets := int64(0)
	for _, s := range all {
		offsets += s.To - s.From
	}
	part := accumulate.SampleRows * float64(span.To-span.From) / float64(max(offsets, 1))
	return min(int(math.Ceil(part+6*math.Sqrt(part)))+8, accumulate.SampleRows)
}

// Tensors and notes of the survey's statistics beside its sums.
const (
	tensorShift     = "shift"
	noteQuarantined = "quarantined"
)

func (w *worker) publishSurvey(ctx context.Context, v visit, s *share, sum *accumulate.Sum, f *found, shift []float32) error {
	sample := &schemas.Sample{Identity: w.identity(schemas.KindSample, v, s), Tensors: f.sample.Tensors()}
	if err := writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(s.span.Partition), sample); err != nil {
		return err
	}
	if w.plan.Prepare.PCA > 0 {
		sum.Field(schemas.FieldGram, len(shift)*(len(shift)+1)/2) // even of no rows
	}
	gram, hasGram := sum.Take(schemas.FieldGram)
	wide := make([]float64, len(shift))
	for j, v := range shift {
		wide[j] = float64(v)
	}
	tensors := append(sum.Tensors(), schemas.Vector(tensorShift, wide), schemas.Words[float64](schemas.FieldLabels, f.labels.Text()))
	r := &schemas.Statistics{
		Identity: w.identity(schemas.KindVisit, v, s), Tensors: tensors,
		Notes: append(coverageNotes(sum.Coverage), schemas.Header{Key: noteQuarantined, Value: strconv.Itoa(f.bad)}),
	}
	if err := writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(s.span.Partition), r); err != nil || !hasGram {
		return err
	}
	r = &schemas.Statistics{Identity: w.identity(schemas.KindGram, v, s), Tensors: schemas.Tensors[float64]{gram}}
	return writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(s.span.Partition), r)
}
