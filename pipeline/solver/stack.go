package solver

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// stackTerms combines the sums of a visit to m increments into two fields, for a stage of the given shape: visited [m, 2], and
// terms [m, 2, p, k] if apart is set. Otherwise terms are [1, 2, p, k], and exist unless the visit has no rows. The error
// is a *[wire.ShapeError].
func stackTerms(sum *accumulate.Sum, m int, apart bool, p, k int) error {
	var terms []float64
	want := []int{1, 2, p, k}
	if apart {
		want[0] = m
	}
	if field, any := sum.Tensors().Find(statistics.FieldTerms); any && len(field.Data) != want[0]*2*p*k {
		return &wire.ShapeError{Tensor: statistics.FieldTerms, Got: field.Shape, Want: want}
	}
	visited := sum.Field(statistics.FieldVisited, m, 2)
	if all := sum.Field(statistics.FieldTerms, want...); apart {
		terms = all
	}
	for i := range m {
		if field, any := sum.Take(statistics.Increment(i).Terms()); any {
			copy(terms[2*i*p*k:], field.Data)
		}
		copy(visited[2*i:], takeVisited(sum, i))
	}
	return nil
}

// takeVisited removes the losses of an increment from a sum, and returns Σw and Σw·loss of its training rows; nil if it
// has none.
func takeVisited(sum *accumulate.Sum, place int) []float64 {
	field, any := sum.Take(statistics.Increment(place).Visited())
	if !any {
		return nil
	}
	return field.Data[:2]
}
