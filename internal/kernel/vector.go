package kernel

import (
	"fmt"
	"math"

	"github.com/viterin/vek/vek32"
)

// lanes is the number of cosines or exponentials that vek computes at a time. vek computes the rest of a slice with
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
	for rest := x.Data; len(rest) > 0; {
		part := rest[:min(chunk, len(rest))]
		rest = rest[len(part):]
		reduceAngles(part)
		cosines(part)
		vek32.MulNumber_Inplace(part, scale)
	}
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

func cosines(x []float32) {
	body := len(x) &^ (lanes - 1)
	vek32.Cos_Inplace(x[:body])
	if body < len(x) {
		var rest [lanes]float32
		copy(rest[:], x[body:])
		vek32.Cos_Inplace(rest[:])
		copy(x[body:], rest[:])
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
	switch {
	case x.Cols == 0:
		for i := range logs {
			logs[i] = math.Inf(-1)
		}
		clear(first)
	case x.Cols <= panel && hasAVX2():
		softmaxNarrow(x, logs, first)
	default:
		softmaxWide(x, logs, first)
	}
}

// exponential returns the constants of softmaxRows: 1/ln 2; ln 2 in two parts, the first of which is exact times an
// integer; the polynomial P of exp(r) = 1 + r + r²·P(r) on ±ln 2/2, with the coefficients of Cephes' expf; 1;
// minExponent; −Inf.
func exponential() [12]float32 {
	return [...]float32{
		1 / math.Ln2, 0.693359375, -2.12194440e-4,
		1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
		1, minExponent, float32(math.Inf(-1)),
	}
}

func softmaxNarrow(x Dense, logs []float64, first []int32) {
	const rows = 64
	constants := exponential()
	var highest, sums [rows]float32
	var greatest [rows]int32
	for from := 0; from < x.Rows; from += rows {
		n := min(rows, x.Rows-from)
		softmaxRows(&x.Data[from*x.Cols], &highest[0], &sums[0], &greatest[0], &constants[0], n, x.Cols)
		if logs != nil {
			for i, sum := range sums[:n] {
				logs[from+i] = float64(highest[i]) + math.Log(float64(sum))
			}
		}
		if first != nil {
			for i, column := range greatest[:n] {
				if sums[i] != sums[i] {
					column = 0
				}
				first[from+i] = column
			}
		}
	}
}

func softmaxWide(x Dense, logs []float64, first []int32) {
	for i := range x.Rows {
		row := x.Row(i)
		highest, column := row[0], 0
		for j, v := range row[1:] {
			if v > highest || v != v {
				highest, column = v, j+1
			}
		}
		if highest-highest != 0 { // NaN or infinite
			highest, column = float32(math.NaN()), 0
		}
		if first != nil {
			first[i] = int32(column)
		}
		if logs != nil {
			logs[i] = float64(highest)
		}
		for j, v := range row {
			row[j] = max(v-highest, minExponent)
		}
	}
	exponentials(x.Data)
	for i := range x.Rows {
		row := x.Row(i)
		var sum float64
		for _, v := range row {
			sum += float64(v)
		}
		if logs != nil {
			logs[i] += math.Log(sum)
		}
		// exponentials may have turned a row of NaN into 0 or NaN. The sum is then 0 or NaN too, and 0·(1/0) is NaN.
		scale := float32(1 / sum)
		for j := range row {
			row[j] *= scale
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
