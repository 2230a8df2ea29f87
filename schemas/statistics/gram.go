package statistics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindGram is the kind of a [Gram] record.
const KindGram wire.Kind = "gram"

// KindLeave is the kind of a [Gram] record of rows that leave the window of a chain.
const KindLeave wire.Kind = "leave"

// OfGram reports whether records of a kind are for a Gram matrix: that of new rows, or of rows that leave the window.
func OfGram(kind wire.Kind) bool { return kind == KindGram || kind == KindLeave }

// Gram is the Gram matrix of a stage's block, of the rows of a share. It has its own record, because a worker sums it before the first
// visit to the stage. Those of a survey or a calibration are fields of their visits. The record of new rows is in single precision, in
// which the tiles of the matrix are summed too: predictions on MNIST change by 1e-6 (RMS). That of rows that leave is in double precision.
type Gram struct {
	wire.Identity
	Matrix []float64 `tensor:"gram,omitzero"` // p(p+1)/2: the lower triangle, row by row; nil if no row is part of it
	// Weight is Σw of the summed rows. It is 0 in records of rows that leave, because a window has the weights of increments.
	Weight float64 `header:"weight"`
}

// Check returns an error if the weight is not a sum of weights.
func (g *Gram) Check() error {
	if !isCount(g.Weight) {
		return fmt.Errorf("weight %v, expected a sum of weights", g.Weight)
	}
	return nil
}

// Kinds of the sums of a stage that a chain keeps: [Moments] and [Terms].
const (
	KindMoments wire.Kind = "moments"
	KindTerms   wire.Kind = "terms"
)

// FieldTerms is the tensor of [Terms].
const FieldTerms = "terms"

// Terms are the terms of an increment's quadratic at a stage, other than its Gram matrix, at weight 1, around the weights V of its last
// visit. The zero value is that of an increment that was never visited.
type Terms struct {
	Scores   []float64 // A = Σ x (xᵀV)ᵀ, p × k
	Gradient []float64 // G = Σ x (g − y)ᵀ, p × k
}

// Record makes the record of the terms of k classes. The visit of its identity is the index of the increment among those that the run
// visited.
func (t Terms) Record(id wire.Identity, k int) *wire.Record[float64] {
	sums := wire.Tensor[float64]{Name: FieldTerms, Shape: []int{2, len(t.Scores) / k, k}, Data: slices.Concat(t.Scores, t.Gradient)}
	return &wire.Record[float64]{Identity: id, Tensors: wire.Tensors[float64]{sums}}
}

// TermsOf is the inverse of [Terms.Record], for p columns and k classes. An error wraps [wire.ErrDamaged].
func TermsOf(r *wire.Record[float64], p, k int) (t Terms, err error) {
	both, err := r.Tensors.Shaped(FieldTerms, 2, p, k)
	if err != nil {
		return t, r.Damaged(err)
	}
	return Terms{both[:p*k], both[p*k:]}, nil
}

// Moments are the sums of a stage over the window after a run of a chain: over its increments, each multiplied by its weight.
type Moments struct {
	Terms
	Gram      []float64 // S = Σ w x xᵀ, p(p+1)/2: the lower triangle row by row
	Curvature float64   // measured along the steps of the last update; 0: none yet
}

// NewMoments returns the moments of an empty window, of p columns and k classes.
func NewMoments(p, k int) *Moments {
	return &Moments{Terms: Terms{make([]float64, p*k), make([]float64, p*k)}, Gram: make([]float64, p*(p+1)/2)}
}

// Record makes the record of the moments of k classes.
func (m *Moments) Record(id wire.Identity, k int) *wire.Record[float64] {
	r := m.Terms.Record(id, k)
	r.Notes = []wire.Header{{Key: "curvature", Value: strconv.FormatFloat(m.Curvature, 'g', -1, 64)}}
	r.Tensors = append(r.Tensors, wire.Vector(FieldGram, m.Gram))
	return r
}

// MomentsOf is the inverse of [Moments.Record], for p columns and k classes. An error wraps [wire.ErrDamaged].
func MomentsOf(r *wire.Record[float64], p, k int) (*Moments, error) {
	terms, err := TermsOf(r, p, k)
	if err != nil {
		return nil, err
	}
	gram, err := r.Tensors.Shaped(FieldGram, p*(p+1)/2)
	curvature, wrong := strconv.ParseFloat(r.Note("curvature"), 64)
	if err = cmp.Or(err, wrong); err != nil {
		return nil, r.Damaged(err)
	}
	return &Moments{terms, gram, curvature}, nil
}

// Increment names the parts of a sum in memory that belong to one increment of a chain, given its index among the increments that a visit
// reads, or that leave the window. So sums of several increments can be added.
type Increment int

// Scores is the name of Σ w x (xᵀV)ᵀ [p, k]. In a visit of an update whose terms are not kept, that of increment 0 is the sum over all
// increments, weighted by increment; so is that of [Increment.Cross].
func (i Increment) Scores() string { return i.name("scores") }

// Cross is the name of Σ w x (y − g)ᵀ [p, k].
func (i Increment) Cross() string { return i.name("cross") }

// Visited is the name of the losses [4]: Σw and Σw·loss of the training rows, Σw and Σw·loss of the rows for the gate.
func (i Increment) Visited() string { return i.name("visited") }

// Leaving is the name of the Gram matrix of the rows that leave.
func (i Increment) Leaving() string { return i.name("leaves") }

// VisitedIn returns Σw and Σw·loss of the training rows of the increment in sums; zero if they have none.
func (i Increment) VisitedIn(sums wire.Tensors[float64]) (l Losses) {
	if data, err := sums.Shaped(i.Visited(), 4); err == nil {
		l.Weight, l.Loss = data[0], data[1]
	}
	return l
}

// TermsIn returns the terms in sums; zeros if the sums have none. They use the memory of the fields [Increment.Scores] and
// [Increment.Cross], and the gradient is negated there, so TermsIn may be called once. An error is a *[wire.ShapeError].
func (i Increment) TermsIn(sums wire.Tensors[float64], p, k int) (t Terms, err error) {
	of := func(name string) []float64 {
		if _, any := sums.Find(name); !any || err != nil {
			return make([]float64, p*k)
		}
		var data []float64
		data, err = sums.Shaped(name, p, k)
		return data
	}
	t = Terms{of(i.Scores()), of(i.Cross())}
	for j, r := range t.Gradient {
		t.Gradient[j] = -r
	}
	return t, err
}

func (i Increment) name(of string) string { return fmt.Sprintf("%s/%d", of, int(i)) }
