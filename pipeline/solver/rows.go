package solver

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/rowsums"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/online"
)

// An update on sparse rows has few rows, and sums of as many columns as occur. NEWS20, 500 rows of 80 words and 20
// classes: 0.7 MB of rows, 2.1 MB of sums for each visit. So workers send the rows once per stage, and the solver makes
// all visits except those for the gate.

// sumsPerStage is the minimum number of sums over all occurring columns that the visits to a stage send: gradient and
// curvature at its first weights, and at its last.
const sumsPerStage = 4

// rowsAreFewer reports whether the rows of a survey have fewer values than their sums. It depends only on the survey's
// records, so a run that another solver takes over continues in the same way.
func (s *Solver) rowsAreFewer(surveyed *accumulate.Sum) bool {
	sizes, err := surveyed.Tensors().Shaped(statistics.FieldSizes, 2)
	return err == nil && 2*sizes[0] <= sumsPerStage*sizes[1]*float64(len(s.chain.Earlier().Labels()))
}

// fitRows makes all visits to a stage on the rows sent in the first visit.
func (s *Solver) fitRows(ctx context.Context, f *fitting, first solve.Step, sent *accumulate.Sum) error {
	spans := s.spansOf(f.number)
	rows, err := rowsums.Sent(sent, f.shape, s.plan.Task(), spans, s.plan.Merges(len(spans)), &s.chained.start.columns.Memory)
	if err != nil {
		return err
	}
	weights := rowsums.Weights{Initial: kernel.Dense{Rows: f.shape.Columns, Cols: f.shape.Classes, Data: first.W}}
	for number, step := 0, first; !step.Final; number++ {
		passes := s.plan.Update().Passes
		of := rowsums.StageOf(f.stage.Link, f.shape.Counted, number, passes)
		of.Ends = !of.Counted && !online.NeedsGradient(number, passes)
		sum, visit, err := rows.Visit(ctx, of, &weights)
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
		weights.Rows = kernel.Dense{Rows: len(step.Occurring), Cols: f.shape.Classes, Data: step.Rows}
		f.sum, f.ended = accumulate.NewSum(sent.Coverage, sum.Tensors()), &step
	}
	return nil
}

// next returns the weights for the visit after last. For a stage whose rows the solver has, they are the final weights;
// the gate may need a visit with them before they end the stage.
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

// passed records the result of a pass.
func (s *Solver) passed(f *fitting, visit int, evaluation *solve.Evaluation, sum *accumulate.Sum) {
	f.passes = evaluation.Number
	metrics := event.MetricsOf(sum.Tensors())
	f.pass = splitMetrics(metrics).pass(evaluation)
	s.rec.Record(event.Passed{
		Stage: f.number, Visit: visit, Pass: evaluation.Number,
		Accepted: evaluation.Accepted, Objective: evaluation.Objective, Metrics: metrics,
	})
}
