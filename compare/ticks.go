package compare

import (
	"math"
	"strconv"
)

// steps are the digits of round numbers.
var steps = [...]float64{1, 2, 5, 10}

// roundStep returns the least of 1, 2, 5, 10, 20, … that divides a range into at most a number of parts.
func roundStep(span float64, parts int) float64 {
	raw := span / float64(parts)
	magnitude := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, s := range steps {
		if s*magnitude >= raw*(1-1e-9) {
			return s * magnitude
		}
	}
	return 10 * magnitude
}

// linearTicks returns round values from one at or below low to one at or above high.
func linearTicks(low, high float64, parts int) (ticks []float64) {
	step := roundStep(max(high-low, math.SmallestNonzeroFloat64*1e20), parts)
	first, last := math.Floor(low/step+1e-9), math.Ceil(high/step-1e-9)
	for n := first; n <= max(last, first+1); n++ {
		ticks = append(ticks, n*step)
	}
	return ticks
}

// logTicks returns values 1, 2 and 5 times a power of ten from one at or below low to one at or above high; powers alone if there are many.
func logTicks(low, high float64) (ticks []float64) {
	digits := steps[:3]
	if math.Log10(high/low) > 3 {
		digits = steps[:1]
	}
	from := math.Floor(math.Log10(low))
	for e := from; ; e++ {
		for _, d := range digits {
			v := d * math.Pow(10, e)
			if next := v * nextStep(d, digits); next <= low*(1+1e-9) {
				continue
			}
			ticks = append(ticks, v)
			if v >= high*(1-1e-9) && len(ticks) > 1 {
				return ticks
			}
		}
	}
}

// nextStep returns the ratio of the tick after one with a first digit.
func nextStep(digit float64, digits []float64) float64 {
	for i, d := range digits {
		if d == digit && i+1 < len(digits) {
			return digits[i+1] / d
		}
	}
	return 10 / digit
}

// tickText formats a round value without an exponent where people read it without.
func tickText(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e6) {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64)
}
