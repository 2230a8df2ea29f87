package solve

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
)

// CoarseFeature is a feature whose values float32 hardly resolves.
type CoarseFeature struct {
	Feature   int
	Mean      float64
	Deviation float64
	Step      float64 // between neighbouring values of float32 at the mean
}

// FindCoarse returns the features of sampled raw rows (n × d) that are a few neighbouring values of float32, or one
// value where float32 lacks some whole numbers: different numbers may have become equal.
func FindCoarse(rows kernel.Dense) (found []CoarseFeature) {
	const levels = 1024
	var values []float32
	for j := range rows.Cols {
		n, shift, sum, squares := 0.0, math.NaN(), 0.0, 0.0
		for i := range rows.Rows {
			v := float64(rows.Row(i)[j])
			if v-v != 0 { // 0 for finite v only
				continue
			}
			if shift != shift {
				shift = v
			}
			n, sum, squares = n+1, sum+v-shift, squares+(v-shift)*(v-shift)
		}
		if n < 2 {
			continue
		}
		mean := sum / n
		deviation := math.Sqrt(max(squares/n-mean*mean, 0))
		mean += shift
		step := stepAt(mean)
		if deviation >= levels*step {
			continue
		}
		values = values[:0]
		for i := range rows.Rows {
			if v := rows.Row(i)[j]; v-v == 0 {
				values = append(values, v)
			}
		}
		if quantised(values, step) {
			found = append(found, CoarseFeature{j, mean, deviation, step})
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
func quantised(values []float32, step float64) bool {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 1 {
		return step > 1
	}
	for i, v := range values[1:] {
		if float64(v)-float64(values[i]) <= step {
			return true
		}
	}
	return false
}
