package solve

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"gonum.org/v1/gonum/floats"
)

// quotients returns −a/b per class, and 0 where b is not positive.
func quotients(a, b []float64) []float64 {
	q := make([]float64, len(a))
	for c, v := range b {
		if v > 0 {
			q[c] = -a[c] / v
		}
	}
	return q
}

// dots returns the inner products of the columns of two p × k matrices.
func dots(a, b []float64, k int) []float64 {
	return sumsByClass(len(a)/k, k, func(from, to int, sums []float64) {
		for i := from * k; i < to*k; i += k {
			x, y := a[i:i+k:i+k], b[i:i+k:i+k]
			for c := range sums {
				sums[c] += x[c] * y[c]
			}
		}
	})
}

// sumOf returns the sum of values, added in order.
func sumOf(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// addByClass adds x (p × k) to dst, each column times the length of its class. Columns of x with length 0 are ignored.
func addByClass(dst, lengths, x []float64) {
	k := len(lengths)
	onCores(len(dst)/k, k, func(first, end int) {
		for i := first * k; i < end*k; i += k {
			to, from := dst[i:i+k:i+k], x[i:i+k:i+k]
			for c, length := range lengths {
				if length != 0 {
					to[c] += length * from[c]
				}
			}
		}
	})
}

// centre subtracts the mean from values.
func centre(values []float64) {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for i := range values {
		values[i] -= mean
	}
}

// scaleRows multiplies the rows of x (p × k) by their factors into dst, which may be x.
func scaleRows(dst, factors, x []float64, k int) {
	onCores(len(factors), k, func(from, to int) {
		for j := from; j < to; j++ {
			for c := j * k; c < (j+1)*k; c++ {
				dst[c] = factors[j] * x[c]
			}
		}
	})
}

// packedDiagonal returns the first n values of the diagonal of a matrix, given its packed lower triangle.
func packedDiagonal(packed []float64, n int) []float64 {
	diagonal := make([]float64, n)
	for i, at := 0, 0; i < n; i, at = i+1, at+i+2 {
		diagonal[i] = packed[at]
	}
	return diagonal
}

// wide returns w in float64.
func wide(w []float32) []float64 {
	out := make([]float64, len(w))
	for i, x := range w {
		out[i] = float64(x)
	}
	return out
}

// narrow returns w in float32.
func narrow(w []float64) []float32 {
	out := make([]float32, len(w))
	for i, x := range w {
		out[i] = float32(x)
	}
	return out
}

// NotFiniteError means that a sum is not a finite number, because features or scores overflow float32.
type NotFiniteError struct {
	What string // the sum, as in "the Gram matrix"
}

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("%s is not a finite number: the features are too large for float32; scale them", e.What)
}

// Finite reports whether a number is neither infinite nor NaN.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// dot returns the inner product of two vectors.
func dot(a, b []float64) float64 {
	return sumsByClass(len(a), 1, func(from, to int, sums []float64) { sums[0] = floats.Dot(a[from:to], b[from:to]) })[0]
}

// addScaled adds alpha · x to dst.
func addScaled(dst []float64, alpha float64, x []float64) {
	onCores(len(dst), 1, func(from, to int) { floats.AddScaled(dst[from:to], alpha, x[from:to]) })
}

// trialFrom returns W − size · step.
func trialFrom(w []float32, size float64, step []float64) []float32 {
	trial := make([]float32, len(w))
	onCores(len(w), 1, func(from, to int) {
		for i := from; i < to; i++ {
			trial[i] = float32(float64(w[i]) - float64(size*step[i]))
		}
	})
	return trial
}

// minPart is the smallest number of values per core: with fewer, the start of a goroutine dominates. Sums are divided
// into parts of this size, so another size changes their last bits.
const minPart = 1 << 16

// onCores calls do for consecutive parts [from, to) of 0 … n−1, on all cores. Each of the n numbers stands for the
// given number of values. The result of do must not depend on the parts. Workers wait for the solver, so all cores are
// free, but their number must not change any bit.
func onCores(n, values int, do func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n, n*values/minPart)
	if parts < 2 {
		do(0, n)
		return
	}
	var group sync.WaitGroup
	for i := range parts {
		group.Go(func() { do(i*n/parts, (i+1)*n/parts) })
	}
	group.Wait()
}

// sumsByClass returns k sums over the rows 0 … n−1 of matrices (n × k); add adds those of the rows [from, to). It adds
// the sums of equally large parts in order: the number of cores does not change any bit.
func sumsByClass(n, k int, add func(from, to int, sums []float64)) []float64 {
	size := max(1, minPart/k)
	parts := max(1, (n+size-1)/size)
	sums := make([]float64, parts*k)
	onCores(parts, minPart, func(from, to int) {
		for i := from; i < to; i++ {
			add(i*size, min((i+1)*size, n), sums[i*k:(i+1)*k])
		}
	})
	total := sums[:k:k]
	for sums = sums[k:]; len(sums) > 0; sums = sums[k:] {
		for c := range total {
			total[c] += sums[c]
		}
	}
	return total
}
