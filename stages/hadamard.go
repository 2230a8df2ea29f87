package stages

import (
	"fmt"
	"math/bits"
)

// hadamard replaces each of the consecutive vectors v of length n in x by H·(d∘v), where d is the corresponding part of
// diagonal and H is the n × n Walsh–Hadamard matrix: H[i, j] is −1 where i and j have an odd number of bits in common,
// else 1. H is not normalised: H·H = n·I. n is a power of two from 8 on that divides the common length of x and diagonal.
//
// The order of additions depends on n alone, so each result depends only on its own vector, and has the same bits with
// and without vector instructions.
func hadamard(x, diagonal []float32, n int) {
	if n < 8 || bits.OnesCount(uint(n)) != 1 || len(x)%n != 0 || len(diagonal) != len(x) {
		panic(fmt.Sprintf("stages: hadamard: %d values, a diagonal of %d, vectors of %d", len(x), len(diagonal), n))
	}
	for ; len(x) > 0; x, diagonal = x[n:], diagonal[n:] {
		hadamardOne(x[:n], diagonal[:n])
	}
}

// hadamardOne does Yates' fast transform: the level of distance h replaces a = x[i] and b = x[i+h] by a + b and a − b. It
// fuses the diagonal with the first three levels, and then each two levels, to reduce loads and stores.
func hadamardOne(x, diagonal []float32) {
	for rest := x; len(rest) >= 8 && len(diagonal) >= 8; rest, diagonal = rest[8:], diagonal[8:] {
		// Without conversions to float32, some compilers would fuse a product and a sum, with other bits.
		v, w := (*[8]float32)(rest), (*[8]float32)(diagonal)
		a, b, c, d := float32(v[0]*w[0]), float32(v[1]*w[1]), float32(v[2]*w[2]), float32(v[3]*w[3])
		e, f, g, h := float32(v[4]*w[4]), float32(v[5]*w[5]), float32(v[6]*w[6]), float32(v[7]*w[7])
		a, b, c, d, e, f, g, h = a+b, a-b, c+d, c-d, e+f, e-f, g+h, g-h
		a, c, b, d, e, g, f, h = a+c, a-c, b+d, b-d, e+g, e-g, f+h, f-h
		v[0], v[1], v[2], v[3] = a+e, b+f, c+g, d+h
		v[4], v[5], v[6], v[7] = a-e, b-f, c-g, d-h
	}
	h := 8
	for ; 4*h <= len(x); h *= 4 {
		for rest := x; len(rest) >= 4*h; rest = rest[4*h:] {
			// The lengths are written so that the compiler can eliminate the bounds checks.
			p := rest[:h]
			q, r, s := rest[h:][:len(p)], rest[2*h:][:len(p)], rest[3*h:][:len(p)]
			for i := range p {
				a, b := p[i]+q[i], p[i]-q[i]
				c, d := r[i]+s[i], r[i]-s[i]
				p[i], q[i], r[i], s[i] = a+c, b+d, a-c, b-d
			}
		}
	}
	if h < len(x) {
		butterflies(x[:h], x[h:])
	}
}

// butterflies does one level for the pairs of two slices of equal length.
func butterflies(p, q []float32) {
	q = q[:len(p)]
	for i, a := range p {
		b := q[i]
		p[i], q[i] = a+b, a-b
	}
}
