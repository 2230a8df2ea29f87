package solve

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// Targets finds the mean (k) and the standard deviation (k) of each number that is predicted, from the survey's sums; 1 for a number that does
// not change. Errors are NoWeightError, *NotFiniteError and *schemas.ShapeError.
func Targets(sums schemas.Tensors[float64], names []string) (center, scale []float32, err error) {
	k := len(names)
	moments, err := sums.Shaped(schemas.FieldTargets, 3, k)
	if err != nil {
		return nil, nil, err
	}
	center, scale = make([]float32, k), make([]float32, k)
	for c := range k {
		weight := moments[c]
		if weight <= 0 {
			return nil, nil, NoWeightError{}
		}
		mean, square := moments[k+c]/weight, moments[2*k+c]/weight
		if !finite(square) {
			return nil, nil, &NotFiniteError{fmt.Sprintf("the variance of the target %q", names[c])}
		}
		center[c], scale[c] = float32(mean), 1
		// A number that does not change has a variance of what rounding left.
		if variance := square - mean*mean; variance > 1e-13*square {
			scale[c] = float32(math.Sqrt(variance))
		}
	}
	return center, scale, nil
}
