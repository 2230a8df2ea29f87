package model

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
)

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

// Probabilities writes the probability of each label (n × k, row-major) for each of n rows of raw features (n × d, row-major; NaN for a
// missing one), which it leaves as they are. It is otherwise like [Model.Predict], and many rows at once take less time each.
func (m *Model) Probabilities(probabilities, rows []float32) {
	m.mustHaveRows("probabilities", len(probabilities), rows)
	p := m.borrow()
	defer m.predictors.Put(p)
	copy(probabilities, p.Probabilities(p.copied(rows)).Data)
}

// ProbabilitiesSparse is Probabilities for sparse rows, which it leaves as they are. It panics unless [Model.Sparse] is true.
func (m *Model) ProbabilitiesSparse(probabilities []float32, rows *examples.SparseRows) {
	mustHave("probabilities", len(probabilities), rows.Len()*len(m.Labels()))
	p := m.borrow()
	defer m.predictors.Put(p)
	copy(probabilities, p.ProbabilitiesSparse(rows).Data)
}

// Numbers writes the numbers (n × k, row-major) that a model of numbers predicts for each of n rows of raw features (n
// × d, row-major; NaN for a missing one), which it leaves as they are. It panics if the model predicts labels. It is
// otherwise like [Model.Probabilities].
func (m *Model) Numbers(numbers []float64, rows []float32) {
	m.mustHaveRows("numbers", len(numbers), rows)
	p := m.borrow()
	defer m.predictors.Put(p)
	copy(numbers, p.Numbers(p.copied(rows)))
}

// NumbersSparse is Numbers for sparse rows, which it leaves as they are. It panics unless [Model.Sparse] is true.
func (m *Model) NumbersSparse(numbers []float64, rows *examples.SparseRows) {
	mustHave("numbers", len(numbers), rows.Len()*len(m.Labels()))
	p := m.borrow()
	defer m.predictors.Put(p)
	copy(numbers, p.NumbersSparse(rows))
}

// borrow returns a predictor that nobody uses. The caller puts it back into the pool.
func (m *Model) borrow() *Predictor {
	if p, ok := m.predictors.Get().(*Predictor); ok {
		return p
	}
	return m.Predictor(nil)
}

// copied returns rows of raw features in memory of the predictor, which may change them.
func (p *Predictor) copied(rows []float32) kernel.Dense {
	width := p.Model().Width()
	p.raw.Reshape(len(rows)/width, width)
	copy(p.raw.Data, rows)
	return p.raw
}

// mustHaveRows panics unless rows are whole rows of raw features, and there is room for what is predicted of them.
func (m *Model) mustHaveRows(what string, got int, rows []float32) {
	n := len(rows) / m.Width()
	mustHave("rows", len(rows), n*m.Width())
	mustHave(what, got, n*len(m.Labels()))
}

func mustHave(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("model: %s of %d values, expected %d", what, got, want))
	}
}
