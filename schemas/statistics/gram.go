package statistics

import (
	"fmt"

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

// Moments are the sums of a stage over the window after a run of a chain: over its increments, each multiplied by its weight.
type Moments struct {
	Terms               // at the weights V of each increment's last visit
	Gram      []float64 `tensor:"gram"`      // Σ w x xᵀ, p(p+1)/2: the lower triangle row by row
	Curvature float64   `header:"curvature"` // measured by the run along its steps; 0: none
}

// MomentsOf reads the moments of a block of p columns and k classes. An error wraps [wire.ErrDamaged].
func MomentsOf(r *wire.Record[float64], p, k int) (*Moments, error) {
	m := &Moments{Terms: Terms{columns: p, classes: k}}
	if err := r.Into(m); err != nil {
		return nil, err
	}
	if n := p * (p + 1) / 2; len(m.Gram) != n {
		return nil, r.Damaged(&wire.ShapeError{Tensor: FieldGram, Got: []int{len(m.Gram)}, Want: []int{n}})
	}
	return m, nil
}

// Terms are the terms of an increment's quadratic at a stage, other than its Gram matrix, at weight 1.
type Terms struct {
	wire.Identity // Visit is the index of the increment among those that the run visited
	// Sums are Σ x (xᵀV)ᵀ and Σ x (g − y)ᵀ, 2 × p × k.
	Sums             wire.Tensor[float64] `tensor:"terms"`
	columns, classes int                  // expected by Check
}

// TermsWith returns terms of p columns and k classes.
func TermsWith(id wire.Identity, scores, gradient []float64, p, k int) Terms {
	both := append(append(make([]float64, 0, 2*p*k), scores...), gradient...)
	return Terms{Identity: id, Sums: wire.Tensor[float64]{Shape: []int{2, p, k}, Data: both}}
}

// Scores returns Σ x (xᵀV)ᵀ, p × k.
func (t *Terms) Scores() []float64 { return t.Sums.Data[:len(t.Sums.Data)/2] }

// Gradient returns Σ x (g − y)ᵀ, p × k.
func (t *Terms) Gradient() []float64 { return t.Sums.Data[len(t.Sums.Data)/2:] }

// TermsOf reads the terms of p columns and k classes. An error wraps [wire.ErrDamaged].
func TermsOf(r *wire.Record[float64], p, k int) (*Terms, error) {
	t := &Terms{columns: p, classes: k}
	return t, r.Into(t)
}

// Check returns an error if the sums have another shape.
func (t *Terms) Check() error {
	_, err := wire.Tensors[float64]{t.Sums}.Shaped(FieldTerms, 2, t.columns, t.classes)
	return err
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

// TermsIn returns the fields [Increment.Scores] and [Increment.Cross] of sums; zeros if they have none. An error is a *[wire.ShapeError].
func (i Increment) TermsIn(sums wire.Tensors[float64], p, k int) (scores, cross []float64, err error) {
	of := func(name string) []float64 {
		if _, any := sums.Find(name); !any || err != nil {
			return make([]float64, p*k)
		}
		var data []float64
		data, err = sums.Shaped(name, p, k)
		return data
	}
	return of(i.Scores()), of(i.Cross()), err
}

func (i Increment) name(of string) string { return fmt.Sprintf("%s/%d", of, int(i)) }
