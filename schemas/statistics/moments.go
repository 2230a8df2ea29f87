package statistics

import (
	"strconv"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindMoments is the kind of a [Moments] record.
const KindMoments wire.Kind = "moments"

// KindTerms is the kind of a [Terms] record.
const KindTerms wire.Kind = "terms"

// Moments are the sums of a stage over the window after a run of a chain: over its increments, each multiplied by its weight.
type Moments struct {
	wire.Identity
	Gram      []float64 // Σ w x xᵀ, p(p+1)/2: the lower triangle row by row; nil if the record has none
	Scores    []float64 // Σ w x (xᵀV)ᵀ, p × k, at the weights V of each increment's last visit
	Gradient  []float64 // Σ w x (g − y)ᵀ there, p × k
	Columns   int       // p
	Classes   int       // k
	Curvature float64   // measured by the run along its steps; 0: none
}

// Names of the tensors and notes of a chain's sums.
const (
	// FieldTerms is the name of the sums of each visited increment: Σ w x (xᵀV)ᵀ and Σ w x (y − g)ᵀ.
	FieldTerms = "terms" // [m, 2, p, k]
	// FieldVisited is the name of the losses of each visited increment that a partition has.
	FieldVisited  = "visited" // [m, 5]: its index, Σw and Σw·loss of the training rows, Σw and Σw·loss of the gate rows
	noteCurvature = "curvature"
)

// Record makes the record of the moments.
func (m *Moments) Record() *wire.Record[float64] {
	r := &wire.Record[float64]{Identity: m.Identity, Notes: []wire.Header{
		{Key: noteCurvature, Value: strconv.FormatFloat(m.Curvature, 'g', -1, 64)},
	}}
	both := append(append(make([]float64, 0, len(m.Scores)+len(m.Gradient)), m.Scores...), m.Gradient...)
	r.Tensors = append(r.Tensors, wire.Tensor[float64]{Name: FieldTerms, Shape: []int{2, m.Columns, m.Classes}, Data: both})
	if m.Gram != nil {
		r.Tensors = append(r.Tensors, wire.Vector(FieldGram, m.Gram))
	}
	return r
}

// MomentsOf is the inverse of [Moments.Record], for p columns and k classes. An error wraps [wire.ErrDamaged].
func MomentsOf(r *wire.Record[float64], p, k int) (*Moments, error) {
	m := &Moments{Identity: r.Identity, Columns: p, Classes: k}
	both, err := r.Tensors.Shaped(FieldTerms, 2, p, k)
	if err == nil {
		m.Scores, m.Gradient = both[:p*k], both[p*k:]
		m.Curvature, err = strconv.ParseFloat(r.Note(noteCurvature), 64)
	}
	if _, ok := r.Tensors.Find(FieldGram); ok && err == nil {
		m.Gram, err = r.Tensors.Shaped(FieldGram, p*(p+1)/2)
	}
	if err != nil {
		return nil, r.Damaged(err)
	}
	return m, nil
}

// Terms are the terms of an increment's quadratic at a stage, other than its Gram matrix, at weight 1.
type Terms struct {
	wire.Identity           // Visit is the index of the increment among those that the run visited
	Scores        []float64 // Σ x (xᵀV)ᵀ, p × k
	Gradient      []float64 // Σ x (g − y)ᵀ, p × k
	Columns       int       // p
	Classes       int       // k
}

// Record makes the record of the terms.
func (t *Terms) Record() *wire.Record[float64] {
	both := append(append(make([]float64, 0, len(t.Scores)+len(t.Gradient)), t.Scores...), t.Gradient...)
	return &wire.Record[float64]{Identity: t.Identity, Tensors: wire.Tensors[float64]{
		{Name: FieldTerms, Shape: []int{2, t.Columns, t.Classes}, Data: both}}}
}

// TermsOf is the inverse of [Terms.Record], for p columns and k classes. An error wraps [wire.ErrDamaged].
func TermsOf(r *wire.Record[float64], p, k int) (*Terms, error) {
	both, err := r.Tensors.Shaped(FieldTerms, 2, p, k)
	if err != nil {
		return nil, r.Damaged(err)
	}
	return &Terms{Identity: r.Identity, Scores: both[:p*k], Gradient: both[p*k:], Columns: p, Classes: k}, nil
}
