package kernel

import (
	"fmt"
	"math"

	"github.com/viterin/vek/vek32"
)

// lanes is the number of exponentials that vek computes at a time. vek computes the rest of a slice with
// other code, which gives other bits and has other special cases. So the rest is padded to eight: a result depends on
// its argument alone, not on its position.
const lanes = 8

// chunk is the number of values that pass through all steps of a function together, so that they stay in the
// first-level cache.
const chunk = 512

// Cosine replaces each x[i, j] by scale·cos(x[i, j] + offsets[j]), with an error of at most 3e-7·scale for angles up to 1e6.
// offsets has x.Cols values. NaN and ±Inf become NaN.
func Cosine(x Dense, offsets []float32, scale float32) {
	x.check("Cosine", "x", x.Rows, len(offsets))
	if len(x.Data) == 0 {
		return
	}
	if hasAVX2() {
		constants := cosine(scale)
		cosineRows(&x.Data[0], &offsets[0], &constants[0], x.Rows, x.Cols)
		return
	}
	AddRow(x, offsets)
	reduceAngles(x.Data)
	vek32.Cos_Inplace(x.Data)
	vek32.MulNumber_Inplace(x.Data, scale)
}

// cosine returns the constants of cosineRows: 1/π; π in two parts; the maximum of a squared reduced angle, which is
// (π/2)² plus the effect of rounding 1e6/π; the coefficients of the polynomial in the square, whose maximum error on
// [0, (π/2)²] is 2.4e-10 before rounding (TestCosinePolynomial computes them); its constant term; and the scale.
func cosine(scale float32) [11]float32 {
	return [...]float32{
		1 / math.Pi, math.Pi, -8.742278e-08, 3,
		-0.5, 0.04166664183139801, -0.00138884037733078, 2.4761886379565112e-05, -2.607710598567792e-07,
		1, scale,
	}
}

// reduceAngles reduces angles to [−π, π]. vek does so itself, but with π rounded to a float32: its cosines are off by 3e-8·|x|.
func reduceAngles(x []float32) {
	const (
		turn = 2 * math.Pi
		// A float64 of this size has no fraction, so adding it rounds to an integer.
		integers = 3 << 51
	)
	for i, v := range x {
		turns := float64(v)*(1/turn) + integers - integers
		x[i] = float32(float64(v) - turns*turn)
	}
}

// minExponent is the smallest argument of exponentials, whose value is 1.6e-38. Below −88, vek's result overflows into
// the sign bit: its exp(−89) is NaN.
const minExponent = -87

// exponentials replaces each x by its exponential, for minExponent ≤ x ≤ 88. The result for a NaN is unspecified.
func exponentials(x []float32) {
	body := len(x) &^ (lanes - 1)
	vek32.Exp_Inplace(x[:body])
	if body < len(x) {
		var rest [lanes]float32
		copy(rest[:], x[body:])
		vek32.Exp_Inplace(rest[:])
		copy(x[body:], rest[:])
	}
}

// Sigmoid replaces each x by 1/(1+exp(−x)), with an error of at most 3e-7. A NaN stays NaN.
func Sigmoid(x []float32) {
	var scratch [chunk]float32
	for len(x) > 0 {
		part := x[:min(chunk, len(x))]
		x = x[len(part):]
		e := scratch[:len(part)]
		for i, v := range part {
			switch {
			case v > -minExponent:
				v = -minExponent
			case v < minExponent:
				v = minExponent
			}
			e[i] = -v
		}
		exponentials(e)
		// Go divides here, because vek uses the processor's approximate reciprocal, which differs between Intel and AMD.
		for i, v := range part {
			if v == v {
				part[i] = 1 / (1 + e[i])
			}
		}
	}
}

// SoftmaxRows replaces each row by its softmax, with an error of at most 3e-7. No value is less than 1e-38/Cols. A row with a NaN
// or +Inf becomes NaN. logs and first are nil or have x.Rows values. logs receives log Σ exp of each row, with an error of at
// most 3e-7 or one rounding of the row's maximum. first receives the first column with the row's maximum, or 0 for a row that
// becomes NaN.
func SoftmaxRows(x Dense, logs []float64, first []int32) {
	x.check("SoftmaxRows", "x", x.Rows, x.Cols)
	if logs != nil && len(logs) != x.Rows || first != nil && len(first) != x.Rows {
		panic(fmt.Sprintf("kernel: SoftmaxRows: logs and first have %d and %d values, want %d", len(logs), len(first), x.Rows))
	}
	if x.Cols == 0 {
		for i := range logs {
			logs[i] = math.Inf(-1)
		}
		clear(first)
		return
	}
	var memory [softmaxTile]float32
	tile, rows := memory[:], min(softmaxRows, softmaxTile/x.Cols&^(lanes-1))
	if rows == 0 {
		tile, rows = make([]float32, lanes*x.Cols), lanes
	}
	for from := 0; from < x.Rows; from += rows {
		softmax(x, from, min(from+rows, x.Rows), logs, first, tile)
	}
}

// softmaxRows is the largest number of rows that SoftmaxRows processes at a time, and softmaxTile the number of their values, so that
// they stay in the first-level cache.
const softmaxRows, softmaxTile = 64, 4096

// softmax is SoftmaxRows for the rows [begin, end), at most softmaxRows. It transposes them into tile, as a vector operation on a
// column processes several rows.
func softmax(x Dense, begin, end int, logs []float64, first []int32, tile []float32) {
	k, n := x.Cols, end-begin
	width := (n + lanes - 1) &^ (lanes - 1)
	tile = tile[:k*width]
	for j := range k {
		column, from := tile[j*width:][:n], x.Data[begin*k+j:]
		for i := range column {
			column[i] = from[i*k]
		}
	}
	var highest, shifted [softmaxRows]float32
	var sums [softmaxRows]float64
	most, valid := highest[:width], shifted[:width]
	copy(most, tile)
	for j := 1; j < k; j++ {
		vek32.Maximum_Inplace(most, tile[j*width:][:width])
	}
	if first != nil {
		first = first[begin:end]
		for j := k - 1; j >= 0; j-- {
			for i, v := range tile[j*width:][:n] {
				if v == most[i] {
					first[i] = int32(j)
				}
			}
		}
	}
	for j := range k {
		column := tile[j*width:][:width]
		vek32.Sub_Inplace(column, most)
		vek32.Add_Inplace(valid, column)
		vek32.MaximumNumber_Inplace(column, minExponent)
	}
	vek32.Exp_Inplace(tile)
	for j := range k {
		for i, v := range tile[j*width:][:n] {
			sums[i] += float64(v)
		}
	}
	for i, sum := range sums[:n] {
		if valid[i] != valid[i] { // the row has a NaN, or its maximum is infinite
			sum = math.NaN()
			if first != nil {
				first[i] = 0
			}
		}
		if logs != nil {
			logs[begin+i] = float64(most[i]) + math.Log(sum)
		}
		most[i] = float32(1 / sum)
	}
	for j := range k {
		to := x.Data[begin*k+j:]
		for i, v := range tile[j*width:][:n] {
			to[i*k] = v * most[i]
		}
	}
}

// AddRow adds b to each row of x. b has x.Cols values.
func AddRow(x Dense, b []float32) {
	x.check("AddRow", "x", x.Rows, len(b))
	if len(b) == 0 {
		return
	}
	for i := range x.Rows {
		vek32.Add_Inplace(x.Row(i), b)
	}
}

// SquaredLength returns Σ x², with a relative error of at most 1e-6.
func SquaredLength(x []float32) float32 { return vek32.Dot(x, x) }
