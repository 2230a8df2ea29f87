package model

import (
	"fmt"
	"os"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
)

// Predictor predicts with a model. [Model.Predictor] makes predictors. A predictor reuses its memory in every call, so it is not
// safe for concurrent use: make one for each goroutine.
type Predictor struct {
	model         *Model
	blas          *kernel.BLAS
	raw, inputs   kernel.Dense
	score, before kernel.Dense
	votes         kernel.Dense // of a model that averages: the sum of its members' predictions
	block         kernel.Dense
	workspace     Workspace
	numbers       []float64 // of a model of numbers: what p.score stands for

	codes   []uint8 // of raw rows, for trees: encoded, or the caller's
	encoded []uint8
	leaves  tree.Leaves

	features examples.SparseRows // of dense rows, for a model of sparse ones
	sparse   kernel.Sparse

	row        examples.Rows // of Predict
	overflowed []int         // rows of the last call

	contributed []contribution // to a score
}

// Predictor returns a new predictor. It multiplies matrices with blas. If blas is nil it opens the BLAS that the environment variable
// STAGEWISE_BLAS names, or else that of the system, and uses Go if it can't be opened.
func (m *Model) Predictor(blas *kernel.BLAS) *Predictor {
	if blas == nil {
		var err error
		if blas, err = kernel.Open(os.Getenv("STAGEWISE_BLAS")); err != nil {
			blas = kernel.Gonum()
		}
	}
	return &Predictor{model: m, blas: blas}
}

// Model returns the model that the predictor predicts with.
func (p *Predictor) Model() *Model { return p.model }

// Predict returns the label of one row of raw features (d), and the probability of each label, in the order of
// [Model.Labels]. The label is the most probable one, or the one that a threshold of the version determines. A missing
// feature is NaN. The probabilities are valid until the next call. It panics if the number of features is not
// [Model.Width]. Of a model of numbers the label is empty: see [Predictor.Probabilities].
func (p *Predictor) Predict(features []float32) (label string, probabilities []float32) {
	mustHave("features", len(features), p.model.Width())
	p.row = examples.Rows{Rows: 1, Cols: len(features), Floats: features}
	if probabilities = p.Probabilities(&p.row); p.model.Task() == examples.Numbers {
		return "", probabilities
	}
	return p.model.Labels()[p.model.Decide(probabilities)], probabilities
}

// Probabilities is PredictRows with the numbers of a model of numbers in place of probabilities, rounded to float32.
func (p *Predictor) Probabilities(rows *examples.Rows) []float32 {
	_, numbers := p.PredictRows(rows)
	for i, v := range numbers {
		p.score.Data[i] = float32(v)
	}
	return p.score.Data
}

// PredictRows returns the probability of each class (n × k, row-major) of rows: raw features (n × d; NaN for a missing value), or sparse
// rows, whose columns that the model does not have are ignored. For a model of numbers it returns the numbers instead. It does not modify
// the rows. The result is valid until the next call. It panics if dense rows have another number of columns than [Model.Width], or if rows
// are sparse and [Model.Sparse] is false.
func (p *Predictor) PredictRows(rows *examples.Rows) (probabilities []float32, numbers []float64) {
	p.scores(rows)
	p.predict()
	if p.model.Task() == examples.Numbers {
		n := len(p.score.Data)
		p.numbers = slices.Grow(p.numbers[:0], n)[:n]
		p.model.prepared.Restore(p.numbers, p.score)
		return nil, p.numbers
	}
	return p.score.Data, nil
}

// Inputs are rows after the preparation of a version, for versions that share it: see [Model.SharesInputs].
type Inputs struct {
	Prepared kernel.Dense // n × m
	Codes    []uint8      // n × c, of a version with bins: what trees compare
}

// MeasureInputs is [Predictor.Measure] for prepared rows. It does not modify them.
func (p *Predictor) MeasureInputs(inputs Inputs, truth link.Truth, loss []float32, predicted []int32) kernel.Dense {
	p.overflowed, p.codes = nil, inputs.Codes
	p.scoresOf(inputs.Prepared)
	return p.compare(truth, loss, predicted)
}

// Measure is PredictRows for rows whose truth is known. It also writes the loss of each row, by the link of the last stage, and the
// class that it predicts. Of a model of numbers the result (n × k) and the truth are standardised.
func (p *Predictor) Measure(rows *examples.Rows, truth link.Truth, loss []float32, predicted []int32) kernel.Dense {
	p.scores(rows)
	return p.compare(truth, loss, predicted)
}

// compare turns the scores after the last stage, which are in p.score, into predictions, and compares them with the truth.
func (p *Predictor) compare(truth link.Truth, loss []float32, predicted []int32) kernel.Dense {
	last := p.model.stages[len(p.model.stages)-1].Link
	if p.model.Manifest.Plan.Members() > 1 {
		p.predict()
		last.MeasurePredictions(p.score, truth, loss, predicted)
		return p.score
	}
	temperature := p.model.Manifest.Plan.Temperature(len(p.model.stages) - 1)
	if temperature != 1 { // the loss is that of the scores that were fitted
		p.before.Reshape(p.score.Rows, p.score.Cols)
		copy(p.before.Data, p.score.Data)
	}
	last.Measure(p.score, truth, loss, predicted, &p.workspace.Link)
	if temperature != 1 {
		p.score, p.before = p.before, p.score
		link.Temper(p.score, temperature)
		last.Predict(p.score)
	}
	last.Probabilities(p.score, &p.workspace.Link)
	return p.score
}

// Overflowed returns the rows of the last call whose inputs, or features or scores in any stage, overflow, in order.
// Inputs and features that overflow are treated as 0, which is the mean of dense rows. A stage whose scores overflow
// adds nothing to them. So no row is predicted as NaN.
func (p *Predictor) Overflowed() []int {
	slices.Sort(p.overflowed)
	return slices.Compact(p.overflowed)
}

// predict turns the scores after the last stage, which are in p.score, into the predictions of the model.
func (p *Predictor) predict() {
	p.end(len(p.model.stages) - 1)
	if members := p.model.Manifest.Plan.Members(); members > 1 {
		sink.Average(p.score, p.votes, members)
	}
}

// end turns the scores after the last stage of a member into the predictions of the member, and counts its vote.
func (p *Predictor) end(stage int) {
	last := p.model.stages[stage].Link
	link.Temper(p.score, p.model.Manifest.Plan.Temperature(stage))
	last.Predict(p.score)
	last.Probabilities(p.score, &p.workspace.Link)
	if p.model.Manifest.Plan.Members() > 1 {
		sink.Vote(p.votes, p.score)
	}
}

// begin writes the scores before a stage (n × k) into p.before. Those after the stage before it are in p.score. A
// member begins at 0, once the one before it has voted.
func (p *Predictor) begin(stage, n int) {
	m, k := p.model, p.model.prepared.Labels.Len()
	switch {
	case stage == 0:
		p.score.Reshape(n, k)
		p.votes.Reshape(n, k)
		clear(p.score.Data)
		clear(p.votes.Data)
	case m.Manifest.Plan.BeginsMember(stage):
		p.end(stage - 1)
		clear(p.score.Data)
	default:
		link.Convert(p.score, m.stages[stage-1].Link, m.stages[stage].Link, &p.workspace.Link)
	}
	p.before, p.score = p.score, p.before
	p.score.Reshape(n, k)
}

// scores writes the scores of rows after the last stage into p.score. It does not modify the rows.
func (p *Predictor) scores(rows *examples.Rows) {
	m, sparse := p.model, rows.Sparse
	if sparse == nil {
		p.raw.Reshape(rows.Rows, m.Width())
		rows.Features(p.raw.Data, m.Width())
	}
	if sparse == nil && m.Sparse() {
		p.thin(p.raw)
		sparse = &p.features
	}
	if sparse != nil {
		p.overflowed = m.prepared.ApplySparse(&p.sparse, sparse)
		p.sparseScores()
		return
	}
	if coder := m.prepared.Coder; coder != nil {
		p.encoded = coder.AppendCodes(p.encoded[:0], p.raw)
		p.codes = p.encoded
	}
	p.inputs.Reshape(p.raw.Rows, m.prepared.Inputs())
	p.overflowed = m.prepared.Apply(p.blas, p.inputs, p.raw)
	p.scoresOf(p.inputs)
}

// scoresOf is scores for prepared rows, which it does not modify. Codes of rows are in p.codes.
func (p *Predictor) scoresOf(inputs kernel.Dense) {
	n := inputs.Rows
	for t, s := range p.model.stages {
		p.begin(t, n)
		leaves := s.Features.Leaves() > 0
		if leaves && !s.Link.Learnt {
			p.scoresOfTrees(s)
			continue
		}
		for from, to := range Tiles(n) {
			score, before := p.score.Slice(from, to), p.before.Slice(from, to)
			var rows []int
			if leaves {
				s.Features.ExpandLeaves(&p.block, &p.leaves, p.codesOf(from, to))
			} else {
				rows = s.Expand(p.blas, &p.workspace, &p.block, inputs.Slice(from, to), before)
			}
			// predictions of a learnt link go through its calibrations; the score of the next stage does not
			if p.model.Manifest.Plan.EndsMember(t) {
				rows = append(rows, s.fitted.Shown(p.blas, &p.workspace.Sink, score, before, p.block)...)
			} else {
				rows = append(rows, s.fitted.Scores(p.blas, score, before, p.block)...)
			}
			p.overflow(from, rows)
		}
	}
}

// overflow records rows that overflow, whose numbers are relative to from.
func (p *Predictor) overflow(from int, rows []int) {
	for _, i := range rows {
		p.overflowed = append(p.overflowed, from+i)
	}
}

// codesOf returns the codes of some rows.
func (p *Predictor) codesOf(from, to int) []uint8 {
	columns := p.model.prepared.Coder.Width()
	return p.codes[from*columns : to*columns]
}

// leafRows is the number of rows whose leaves are found and whose weights are added together: the leaves in 32 trees and the scores
// of a few classes stay in the first-level cache, and those of more classes in the second. Sums have the same bits for any number.
const leafRows = 512

// scoresOfTrees writes the scores of the rows whose codes are in p.codes after a stage of trees into p.score.
func (p *Predictor) scoresOfTrees(s fittedStage) {
	for from := 0; from < p.score.Rows; from += leafRows {
		to := min(from+leafRows, p.score.Rows)
		s.Features.FindLeaves(&p.leaves, p.codesOf(from, to))
		p.overflow(from, s.fitted.ScoresOfLeaves(p.score.Slice(from, to), p.before.Slice(from, to), p.leaves, s.Features.Leaves()))
	}
}

// thin writes the features of dense rows that are neither 0 nor missing into p.features, and missing numbers of mixed rows.
func (p *Predictor) thin(raw kernel.Dense) {
	p.features.Reset()
	numbers := 0
	if columns := p.model.Columns(); columns != nil {
		numbers = columns.Features()
	}
	for i := range raw.Rows {
		for j, v := range raw.Row(i) {
			if v == v || j < numbers {
				p.features.Append(int32(j), v)
			}
		}
		p.features.End()
	}
}

// sparseScores is scores for the inputs in p.sparse.
func (p *Predictor) sparseScores() {
	for t, s := range p.model.stages {
		p.begin(t, p.sparse.Rows)
		p.overflowed = append(p.overflowed, s.fitted.ScoresSparse(p.score, p.before, s.Features.ExpandSparse(p.sparse))...)
	}
}

// Filters returns the filters of a stage of patches, one a row (f × q), and their shape: a filter is compared with
// whitened patches, and has their pixels. Both are zero for a stage of another kind.
func (m *Model) Filters(stage int) (filters kernel.Dense, shape examples.Image) {
	t, ok := m.preparation.Find(statistics.OfStage(statistics.TensorFilters, stage))
	if !ok || len(t.Shape) != 2 {
		return filters, shape
	}
	size := m.Manifest.Plan.Stages[stage].Features.Patch
	filters = kernel.NewDense(t.Shape[1], t.Shape[0])
	for i, v := range t.Data {
		filters.Data[i%filters.Rows*filters.Cols+i/filters.Rows] = v
	}
	return filters, examples.Image{size, size, m.Image().Channels()}
}

// Predict returns the label of one row, as [Predictor.Predict] does, of raw features (d). It writes the probability of
// each label (k), in the order of [Model.Labels], into probabilities, unless that is nil. A missing feature is NaN. Any
// number of goroutines may call it at the same time. It multiplies matrices with the BLAS of the system, or in Go if
// there is none. It allocates memory only when more goroutines are in it than ever before, or after a garbage
// collection. It panics if features or probabilities have another length. Of a model of numbers (see [Model.Task]) the
// label is empty, and the numbers are in place of probabilities, rounded to float32: see [Model.Numbers].
func (m *Model) Predict(features, probabilities []float32) (label string) {
	p := m.borrow()
	defer m.predictors.Put(p)
	label, all := p.Predict(features)
	if probabilities != nil {
		mustHave("probabilities", len(probabilities), len(all))
		copy(probabilities, all)
	}
	return label
}

// Probabilities writes the probability of each label (n × k, row-major) of n rows: raw features (n × d; NaN for a missing one), or sparse
// rows if [Model.Sparse] is true. It does not modify the rows. It is otherwise like [Model.Predict], and many rows at once take less time
// each.
func (m *Model) Probabilities(probabilities []float32, rows *examples.Rows) {
	mustHave("probabilities", len(probabilities), rows.Rows*len(m.Labels()))
	p := m.borrow()
	defer m.predictors.Put(p)
	copy(probabilities, p.Probabilities(rows))
}

// Numbers writes the numbers (n × k, row-major) that a model of numbers predicts of n rows. It panics if the model predicts labels. It is
// otherwise like [Model.Probabilities].
func (m *Model) Numbers(numbers []float64, rows *examples.Rows) {
	if m.Task() != examples.Numbers {
		panic("model: numbers of a model of labels")
	}
	mustHave("numbers", len(numbers), rows.Rows*len(m.Labels()))
	p := m.borrow()
	defer m.predictors.Put(p)
	_, all := p.PredictRows(rows)
	copy(numbers, all)
}

// Contributions is [Predictor.Contributions] for any number of goroutines.
func (m *Model) Contributions(rows *examples.Rows, n int, do func(row int, scores []Contributions)) error {
	p := m.borrow()
	defer m.predictors.Put(p)
	return p.Contributions(rows, n, do)
}

// borrow returns an idle predictor. The caller puts it back into the pool.
func (m *Model) borrow() *Predictor {
	if p, ok := m.predictors.Get().(*Predictor); ok {
		return p
	}
	return m.Predictor(nil)
}

// mustHave panics unless a slice has the expected length.
func mustHave(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("model: %s of %d values, expected %d", what, got, want))
	}
}
