package statistics

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindIncrement is the kind of an [IncrementTerms] record.
const KindIncrement wire.Kind = "increment"

// IncrementTerms are the sums of an increment, or of increments that the run merges, in one partition or in merged ones, at
// the end of a stage of a full run of a chain. They have their own records, so that a worker need not keep those of all
// increments of a partition until it seals it.
type IncrementTerms struct {
	wire.Identity           // Visit is the index of the increment, see [schemas.Chain.TermsPlaces]
	Terms         []float64 // 2 × p × k: Σ w x (xᵀV)ᵀ and Σ w x (y − g)ᵀ
	Columns       int       // p
	Classes       int       // k
}

// Record makes the record of the sums.
func (t *IncrementTerms) Record() *wire.Record[float64] {
	return &wire.Record[float64]{Identity: t.Identity, Tensors: wire.Tensors[float64]{
		{Name: FieldTerms, Shape: []int{2, t.Columns, t.Classes}, Data: t.Terms}}}
}

// IncrementFieldOf returns the terms in a record as the field of their increment in a sum. sparse reports whether the record is
// that of an [OccurringTerms]; p and k are the shape of the block. An error wraps [wire.ErrDamaged].
func IncrementFieldOf(r *wire.Record[float64], sparse bool, p, k int) (field wire.Tensor[float64], err error) {
	as := Increment(r.Visit)
	if sparse {
		terms, err := OccurringTermsOf(r, p, k)
		if err != nil {
			return field, err
		}
		return terms.Tensor(as.Occurring(), k), nil
	}
	terms, err := IncrementTermsOf(r, p, k)
	if err != nil {
		return field, err
	}
	return wire.Tensor[float64]{Name: as.Terms(), Shape: []int{2, p, k}, Data: terms.Terms}, nil
}

// IncrementTermsOf is the inverse of [IncrementTerms.Record], for p columns and k classes. An error wraps [wire.ErrDamaged].
func IncrementTermsOf(r *wire.Record[float64], p, k int) (*IncrementTerms, error) {
	terms, err := r.Tensors.Shaped(FieldTerms, 2, p, k)
	if err != nil {
		return nil, r.Damaged(err)
	}
	return &IncrementTerms{Identity: r.Identity, Terms: terms, Columns: p, Classes: k}, nil
}
