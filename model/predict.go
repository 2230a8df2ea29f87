package model

import (
	"fmt"

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
