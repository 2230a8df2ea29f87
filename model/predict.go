package model

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas"
)

// Predict returns the most probable label of one row of raw features (d). It writes the probability of each label (k), in the order of
// [Model.Labels], into probabilities, unless that is nil. A missing feature is NaN. Any number of goroutines may call it at the same time. It
// multiplies matrices with the BLAS of the system, or in Go if there is none. It allocates memory only when more goroutines are in it than
// ever before, or after a garbage collection. It panics if features or probabilities have another length. Of a model of numbers (see
// [Model.Task]) the label is empty, and the numbers are in place of probabilities.
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
	n := len(rows) / m.Width()
	mustHave("rows", len(rows), n*m.Width())
	mustHave("probabilities", len(probabilities), n*len(m.Labels()))
	p := m.borrow()
	defer m.predictors.Put(p)
	p.raw.Reshape(n, m.Width())
	copy(p.raw.Data, rows)
	copy(probabilities, p.Probabilities(p.raw).Data)
}

// ProbabilitiesSparse is Probabilities for sparse rows, which it leaves as they are. It panics unless [Model.Sparse] is true.
func (m *Model) ProbabilitiesSparse(probabilities []float32, rows *schemas.SparseRows) {
	mustHave("probabilities", len(probabilities), rows.Len()*len(m.Labels()))
	p := m.borrow()
	defer m.predictors.Put(p)
	copy(probabilities, p.ProbabilitiesSparse(rows).Data)
}

// borrow returns a predictor that nobody uses. The caller puts it back into the pool.
func (m *Model) borrow() *Predictor {
	if p, ok := m.predictors.Get().(*Predictor); ok {
		return p
	}
	return m.Predictor(nil)
}

func mustHave(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("model: %s of %d values, expected %d", what, got, want))
	}
}
