package solve

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// PrepareTargets computes the mean (k) and the standard deviation (k) of each numeric target, from the survey's sums
// about shift (k; nil: 0); the deviation of a constant target is 1. An error may be a *NotFiniteError or a
// *[wire.ShapeError].
func PrepareTargets(sums wire.Tensors[float64], shift []float64, names []string) (center []float64, scale []float32, err error) {
	k := len(names)
	moments, err := sums.Shaped(statistics.FieldTargets, 3, k)
	if err != nil {
		return nil, nil, err
	}
	if shift == nil {
		shift = make([]float64, k)
	}
	if len(shift) != k {
		return nil, nil, &wire.ShapeError{Tensor: "target_shift", Got: []int{len(shift)}, Want: []int{k}}
	}
	center, scale = make([]float64, k), make([]float32, k)
	for c := range k {
		weight := moments[c]
		if weight <= 0 {
			return nil, nil, errNoWeight
		}
		mean, square := moments[k+c]/weight, moments[2*k+c]/weight
		if !Finite(square) || !Finite(shift[c]) {
			return nil, nil, &NotFiniteError{What: fmt.Sprintf("the variance of the target %q", names[c])}
		}
		center[c], scale[c] = shift[c]+mean, 1
		// The variance of a constant target is only rounding.
		if variance := square - mean*mean; variance > 1e-13*square {
			scale[c] = float32(math.Sqrt(variance))
		}
	}
	return center, scale, nil
}

// halves returns means as float32, and the remainders, which are nil if small relative to the deviations.
func halves(center []float64, scale []float32) (first, rest []float32) {
	first = make([]float32, len(center))
	left, much := make([]float32, len(center)), false
	for c, v := range center {
		first[c] = float32(v)
		left[c] = float32(v - float64(first[c]))
		much = much || math.Abs(float64(left[c])) > 1e-6*float64(scale[c])
	}
	if !much {
		return first, nil
	}
	return first, left
}
