package linear

import (
	"fmt"
	"math"
)

// NotFiniteError means that a sum is not a finite number, because features or scores overflow float32.
type NotFiniteError struct {
	What string // the sum, as in "the Gram matrix"
}

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("%s is not a finite number: the features are too large for float32; scale them", e.What)
}

// Finite reports whether a number is neither infinite nor NaN.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
