package solver

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/rowsums"
	"github.com/stagewise/stagewise/pipeline/solver/report"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/online"
)

// An update on sparse rows has few of them, and sums of as many columns as occur. NEWS20, 500 rows of 80 words and 20 classes: 0.7 MB of
// rows, 2.1 MB of sums a visit. So workers send the rows once a stage, and the solver makes all visits but those that the gate needs.

// sumsPerStage is how many sums of all columns that occur the visits to a stage send at least: gradient and curvature at its first weights,
// and at its last.
const sumsPerStage = 4

// rowsAreFewer reports whether the rows of a survey have fewer values than their sums, given what the survey has summed. It depends on the
// survey's records alone: a run that is taken over goes on as it began.
func (s *Solver) rowsAreFewer(surveyed *accumulate.Sum) bool {
	sizes, err := surveyed.Tensors().Shaped(statistics.FieldSizes, 2)
	return err == nil && 2*sizes[0] <= sumsPerStage*sizes[1]*float64(len(s.chain.Earlier().Labels()))
}

// fitRows makes all visits to a stage, given what the first has sent: the rows.
func (s *Solver) fitRows(ctx context.Context, f *fitting, first solve.Step, sent *accumulate.Sum) error {
	shape := rowsums.Shape{Columns: f.shape.Columns, Inputs: f.shape.Penalised, Classes: f.shape.Classes, Task: s.plan.Task()}
	segments, err := rowsums.Read(sent.Tensors(), shape)
	if err == nil {
		err = s.checkSent(f.number, segments, sent)
	}
	if err != nil {
		return err
	}
	summers := make([]rowsums.Summer, len(segments))
	for i := range segments {
		summers[i].Begin(segments[i].Batches)
	}
	weights := rowsums.Weights{Initial: kernel.Dense{Rows: shape.Columns, Cols: shape.Classes, Data: first.W}}
	for number, step := 0, first; !step.Final; number++ {
		of := rowsums.Stage{Link: f.stage.Link, Counted: f.shape.Counted, Reaching: number == 0 && !f.shape.Counted,
			Curved: !f.shape.Counted && online.HasCurvature(number, s.plan.Update().Passes)}
		for i := range summers {
			summers[i].Take(&weights)
		}
		sum, visit, err := s.visitRows(ctx, f, of, segments, summers)
		if err != nil {
			return err
		}
		evaluation, err := s.chained.fits.columns[f.number].ObserveVisit(number, step, visit)
		if err != nil {
			return err
		}
		s.passed(f, number, evaluation, sum)
		if step, err = f.fit.Next(); err != nil {
			return err
		}
		weights.Columns = step.Occurring
		weights.Rows = kernel.Dense{Rows: len(step.Occurring), Cols: shape.Classes, Data: step.Rows}
		f.sum, f.ended = accumulate.NewSum(sent.Coverage, sum.Tensors()), &step
	}
	return nil
}

// checkSent returns an error unless segments are of the partitions of a stage, and have as many rows as their records say.
func (s *Solver) checkSent(stage int, segments []rowsums.Segment, sent *accumulate.Sum) error {
	rows, spans := int64(0), s.spansOf(stage)
	for _, of := range segments {
		if !slices.ContainsFunc(spans, func(span coverage.Span) bool { return span.Partition == of.Partition }) {
			return fmt.Errorf("%w: rows of partition %d, which the plan does not have", wire.ErrDamaged, of.Partition)
		}
		for _, b := range of.Batches {
			rows += int64(b.Block.Rows)
		}
	}
	if rows != sent.Rows {
		return fmt.Errorf("%w: %d rows came, %d are covered", wire.ErrDamaged, rows, sent.Rows)
	}
	return nil
}

// visitRows returns the sums of a visit to rows, as workers and the solver would have added them, and what the fit needs of them.
func (s *Solver) visitRows(ctx context.Context, f *fitting, of rowsums.Stage, segments []rowsums.Segment,
	summers []rowsums.Summer) (sum *accumulate.Sum, v online.Visit, err error) {
	if len(segments) != 1 { // else nothing is to be added
		if sum, err = s.sumRows(ctx, f, of, segments, summers); err == nil {
			v, err = online.VisitOf(sum.Tensors(), f.shape)
		}
		return sum, v, err
	}
	sum = &accumulate.Sum{}
	t := summers[0].Tables(ctx, sum, of)
	v.Losses = statistics.LossesOf(sum.Tensors())[examples.Train]
	table := func(values []float64) statistics.Occurring {
		if values == nil {
			return statistics.Occurring{}
		}
		return statistics.Occurring{Columns: t.Columns, Values: values}
	}
	if of.Counted {
		v.Counted = table(t.Cross)
	} else {
		v.Gradient, v.Curvature, v.Reach = table(t.Cross), table(t.Curvature), table(t.Reach)
	}
	return sum, v, ctx.Err()
}

// sumRows returns the sums of segments, as workers and the solver would have added them.
func (s *Solver) sumRows(ctx context.Context, f *fitting, of rowsums.Stage, segments []rowsums.Segment,
	summers []rowsums.Summer) (*accumulate.Sum, error) {
	partitions := map[int]*accumulate.Sum{}
	for i := range segments {
		sum := &accumulate.Sum{}
		summers[i].Sum(ctx, sum, of)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if of := segments[i].Partition; partitions[of] == nil {
			partitions[of] = sum
		} else if err := partitions[of].Merge(sum); err != nil {
			return nil, err
		}
	}
	spans := s.spansOf(f.number)
	reduction := accumulate.NewReduction(s.plan.Merges(len(spans)))
	_, err := reduction.Take(func(from, to int) (*accumulate.Sum, error) {
		if to-from > 1 {
			return nil, nil
		}
		return cmp.Or(partitions[spans[from].Partition], &accumulate.Sum{}), nil
	})
	if err != nil {
		return nil, err
	}
	return reduction.Sum()
}

// next returns the weights for the visit after last. Of a stage whose rows the solver has these are the final ones, which the gate may want
// a visit with before they end the stage.
func (s *Solver) next(f *fitting, last protocol.Visit) (solve.Step, error) {
	if f.ended == nil {
		return f.fit.Next()
	}
	step := *f.ended
	step.Of = last.Number
	judged := f.number == len(s.plan.Stages)-1 && !f.shape.Counted && s.hasGateRows()
	step.Final = !judged || last.Number > 0
	return step, nil
}

// visitKind returns the kind of the records of a visit.
func (s *Solver) visitKind(v protocol.Visit) wire.Kind {
	if s.chain.SendsRows(v) {
		return statistics.KindRows
	}
	return statistics.KindVisit
}

// passed notes how a pass went.
func (s *Solver) passed(f *fitting, visit int, evaluation *solve.Evaluation, sum *accumulate.Sum) {
	f.passes = evaluation.Number
	metrics := event.MetricsOf(sum.Tensors())
	f.pass = report.Metrics(metrics).Pass(evaluation)
	s.rec.Record(event.Passed{
		Stage: f.number, Visit: visit, Pass: evaluation.Number,
		Accepted: evaluation.Accepted, Objective: evaluation.Objective, Metrics: metrics,
	})
}
