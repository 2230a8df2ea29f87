package linear

// Quotients returns −a/b per class, and 0 where b is not positive.
func Quotients(a, b []float64) []float64 {
	q := make([]float64, len(a))
	for c, v := range b {
		if v > 0 {
			q[c] = -a[c] / v
		}
	}
	return q
}

// Dots returns the inner products of the columns of two p × k matrices.
func Dots(a, b []float64, k int) []float64 {
	return SumsByClass(len(a)/k, k, func(from, to int, sums []float64) {
		for i := from * k; i < to*k; i += k {
			x, y := a[i:i+k:i+k], b[i:i+k:i+k]
			for c := range sums {
				sums[c] += x[c] * y[c]
			}
		}
	})
}

// Sum returns the sum of values, added in order.
func Sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// AddByClass adds x (p × k) to dst, each column times the length of its class. Columns of x with length 0 are ignored.
func AddByClass(dst, lengths, x []float64) {
	k := len(lengths)
	OnCores(len(dst)/k, k, func(first, end int) {
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
