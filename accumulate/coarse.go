package accumulate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/internal/kernel"
)

// CoarseFeature is a feature whose values float32 hardly resolves.
type CoarseFeature struct {
	Feature int
	Mean    float64
	Step    float64 // between neighbouring values of float32 at the mean
}

// FindCoarse returns the features of sampled raw rows (n × d) whose values are neighbouring values of float32, or one
// value near which float32 lacks some whole numbers: different numbers may have become equal.
func FindCoarse(rows kernel.Dense) (found []CoarseFeature) {
	const levels = 1024
	var values []float64
	for j := range rows.Cols {
		values = values[:0]
		for i := range rows.Rows {
			if v := float64(rows.Row(i)[j]); v == v { // not a missing value
				values = append(values, v)
			}
		}
		if len(values) < 2 {
			continue
		}
		mean, deviation := stat.PopMeanStdDev(values, nil)
		if step := stepAt(mean); deviation < levels*step && quantised(values, step) {
			found = append(found, CoarseFeature{j, mean, step})
		}
	}
	return found
}

// stepAt returns the distance of neighbouring float32 values near v.
func stepAt(v float64) float64 {
	narrow := float32(math.Abs(v))
	return float64(math.Nextafter32(narrow, math.MaxFloat32)) - float64(narrow)
}

// quantised reports whether the values are adjacent in float32, or are one value near which some whole numbers are
// missing.
func quantised(values []float64, step float64) bool {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 1 {
		return step > 1
	}
	for i, v := range values[1:] {
		if v-values[i] <= step {
			return true
		}
	}
	return false
}
