package statistics

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

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
