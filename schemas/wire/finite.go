package wire

import "math"

// Finite returns v, or the largest number if v has overflowed: JSON has no infinities and no NaN.
func Finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.MaxFloat64
	}
	return v
}
