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
// visit to the stage. Those of a survey or a calibration are fields of their visits.
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

// Fields returns the matrix as a field of a sum; none if it has no rows.
func (g *Gram) Fields() wire.Tensors[float64] {
	if g.Matrix == nil {
		return nil
	}
	return wire.Tensors[float64]{wire.Vector(FieldGram, g.Matrix)}
}

// GramOf returns the Gram matrix with its weight in the fields of a sum; it is empty if there are none.
func GramOf(id wire.Identity, fields wire.Tensors[float64]) *Gram {
	g := &Gram{Identity: id}
	if matrix, any := fields.Find(FieldGram); any {
		g.Matrix = matrix.Data
	}
	if weight, any := fields.Find(FieldGramRows); any {
		g.Weight = weight.Data[0]
	}
	return g
}

// BlockRecord makes the record of a block's Gram matrix, in single precision. The tiles of the matrix
// are summed in single precision too. Measured on MNIST (identity link, 10 × 1024, ridge 1e-5), this changes predictions
// by 1e-6 (RMS).
func (g *Gram) BlockRecord() *wire.Record[float32] { return wire.RecordOf[float32](g) }

// ExactRecord makes the record of a Gram matrix of rows that leave, in double precision, since it is a sum of rounded matrices.
func (g *Gram) ExactRecord() *wire.Record[float64] { return wire.RecordOf[float64](g) }

// BlockGramOf is the inverse of [Gram.BlockRecord]. An error wraps [wire.ErrDamaged].
func BlockGramOf(r *wire.Record[float32]) (*Gram, error) { return read(r, &Gram{}) }

// ExactGramOf is the inverse of [Gram.ExactRecord]. An error wraps [wire.ErrDamaged].
func ExactGramOf(r *wire.Record[float64]) (*Gram, error) { return read(r, &Gram{}) }

// read reads a record into a struct with tags.
func read[S any, T wire.Number](r *wire.Record[T], into *S) (*S, error) {
	if err := r.Into(into); err != nil {
		return nil, err
	}
	return into, nil
}
