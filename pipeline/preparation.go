package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// survey turns its statistics into the preparation, unless that is accepted
// already; kept is the earlier version's in a warm start.
func (s *solver) survey(ctx context.Context, kept schemas.Tensors[float32]) error {
	if s.current = schemas.Survey; len(s.chain.accepted) == 0 {
		v := visit{stage: schemas.Survey, parent: s.chain.root}
		r, err := s.surveyed(ctx, v)
		if err == nil {
			err = s.prepare(ctx, v, r, kept)
		}
		if err != nil && !errors.Is(err, errAccepted) {
			return err
		}
	}
	var err error
	if s.rows, err = s.chain.rows(); err != nil {
		return err
	}
	if _, err := fmt.Sscan(s.chain.accepted[0].Note(noteQuarantined), &s.quarantined); err != nil {
		return fmt.Errorf("read how much is in quarantine: %w", err)
	}
	for t, stage := range s.plan.Stages {
		if stage.Stop == nil {
			continue
		}
		if split, err := schemas.ParseSplit(stage.Stop.Split); err == nil && s.rows[split] == 0 {
			notice(s.rec, "stage %d is to stop by the loss of the %s rows, of which there are none: it won't", t, split)
		}
	}
	s.rec.Record(s.chain.surveyed(s.rows, time.Since(s.began)))
	return nil
}

// surveyed is the reduced statistics of the survey.
type surveyed struct {
	sum         *accumulate.Sum
	labels      accumulate.LabelSet
	sample      *accumulate.Sample
	shift       []float32
	covered     []string // of each span, as its record says
	quarantined int64
}

func (s *solver) surveyed(ctx context.Context, v visit) (*surveyed, error) {
	kinds := []schemas.Kind{schemas.KindVisit, schemas.KindSample}
	if s.plan.Prepare.PCA > 0 {
		kinds = append(kinds, schemas.KindGram)
	}
	all, covered := &surveyed{labels: accumulate.LabelSet{}, sample: &accumulate.Sample{}}, map[int]string{}
	var err error
	all.sum, err = s.gather(ctx, s.gathering(v, func(span schemas.Span) (*accumulate.Sum, error) {
		return s.surveyedSpan(v, span, all, covered)
	}, kinds...))
	for _, span := range s.plan.Spans {
		all.covered = append(all.covered, covered[span.Partition])
	}
	return all, err
}

// surveyedSpan adds the statistics of one span to all, and answers with its sums.
func (s *solver) surveyedSpan(v visit, span schemas.Span, all *surveyed, covered map[int]string) (*accumulate.Sum, error) {
	r := s.record(s.identity(schemas.KindVisit, v, span.Partition))
	tensors := schemas.Tensors[float64]{}
	for _, t := range r.Tensors {
		switch t.Name {
		case tensorShift:
			all.shift = make([]float32, len(t.Data))
			for j, x := range t.Data {
				all.shift[j] = float32(x)
			}
		case schemas.FieldLabels:
			for _, text := range t.Text {
				all.labels[text] = struct{}{}
			}
		default:
			tensors = append(tensors, t)
		}
	}
	if s.plan.Prepare.PCA > 0 {
		tensors = append(tensors, s.record(s.identity(schemas.KindGram, v, span.Partition)).Tensors...)
	}
	sample := s.identity(schemas.KindSample, v, span.Partition)
	rows, err := accumulate.SampleOf(s.sampled[sample].Tensors)
	if err != nil {
		return nil, err
	}
	delete(s.sampled, sample)
	all.sample.Merge(rows)
	n, err := strconv.ParseInt(r.Note(noteQuarantined), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", schemas.ErrDamaged, r.Identity, err)
	}
	all.quarantined += n
	covered[span.Partition] = r.Note(noteCovered)
	coverage, err := coverageOf(r.Note(noteCovered))
	if err != nil {
		return nil, err
	}
	return accumulate.NewSum(coverage, tensors), nil
}

// prepare publishes the survey's result, with what later solvers report of it.
func (s *solver) prepare(ctx context.Context, v visit, all *surveyed, kept schemas.Tensors[float32]) error {
	tensors, err := s.preparation(all, kept)
	if err != nil {
		return err
	}
	scores := schemas.LossesOf(all.sum.Tensors())
	return s.publish(ctx, &schemas.Weights{
		Identity: schemas.Identity{Kind: schemas.KindPrepare, Run: s.run, Stage: schemas.Survey, Parent: v.parent},
		Notes: []schemas.Header{
			{Key: noteRows, Value: fmt.Sprintf("%.0f %.0f %.0f", scores[0].Rows, scores[1].Rows, scores[2].Rows)},
			{Key: noteQuarantined, Value: strconv.FormatInt(all.quarantined, 10)},
		},
		Tensors: append(tensors, schemas.Words[float32](schemas.TensorCovered, all.covered)),
	})
}

// preparation is the survey's result, or in a warm start the earlier version's,
// if these examples fit it.
func (s *solver) preparation(all *surveyed, kept schemas.Tensors[float32]) (schemas.Tensors[float32], error) {
	if kept == nil {
		labels := s.plan.Classes
		if len(labels) == 0 {
			labels = all.labels.Text()
		}
		found, err := solve.Survey(solve.SurveySums{Sums: all.sum.Tensors(), Shift: all.shift, Labels: labels},
			s.plan.Prepare.Scale == stages.ScaleStandard, s.plan.Prepare.PCA)
		if err != nil {
			return nil, err
		}
		spread, err := solve.Spread(prepareSample(s.plan.Prepare, found, all.sample.Rows()))
		if err != nil {
			return nil, err
		}
		return found.Tensors(spread), nil
	}
	frozen, _ := kept.Find(schemas.TensorLabels)
	center, _ := kept.Find(schemas.TensorCenter)
	if len(center.Data) != len(all.shift) {
		return nil, fmt.Errorf("%d features, the version that this run starts from has %d", len(all.shift), len(center.Data))
	}
	if len(s.plan.Classes) > 0 && !slices.Equal(s.plan.Classes, frozen.Text) {
		return nil, fmt.Errorf("examples.classes are not those of the version that this run starts from, %q", frozen.Text)
	}
	if err := within(all.labels, frozen.Text); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(kept), func(t schemas.Tensor[float32]) bool { return t.Name == schemas.TensorCovered }), nil
}

// prepareSample prepares the rows of the sample, which it overwrites. It prepares one row at a time, and in Go: a BLAS may
// round equal rows at different positions differently, and the spread takes equal rows from their bits.
func prepareSample(prepare schemas.Prepare, found *solve.Preparation, sample kernel.Dense) kernel.Dense {
	p := stages.NewInputs(prepare, found.Center, found.Scale, found.Basis)
	rows, blas := kernel.NewDense(sample.Rows, p.Inputs()), kernel.Gonum()
	for i := range sample.Rows {
		p.Apply(blas, rows.Slice(i, i+1), sample.Slice(i, i+1))
	}
	return rows
}

// within tells whether all labels are among those that an earlier version has
// frozen.
func within(found accumulate.LabelSet, frozen []string) error {
	known := map[string]bool{}
	for _, t := range frozen {
		known[t] = true
	}
	var others []string
	for t := range found {
		if !known[t] {
			others = append(others, t)
		}
	}
	if sort.Strings(others); len(others) > 0 {
		return fmt.Errorf("labels %q are not among the classes of the version that this run starts from: start without it", others)
	}
	return nil
}
