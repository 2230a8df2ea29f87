package stages

import (
	"fmt"
	"math/bits"
)

// hadamard replaces each of the consecutive vectors v of length n in x by H·(d∘v), where d is the corresponding part of
// diagonal and H is the n × n Walsh–Hadamard matrix: H[i, j] is −1 where i and j have an odd number of bits in common,
// else 1. H is not normalised: H·H = n·I. n is a power of two that divides the common length of x and diagonal.
//
// The order of additions depends on n alone, so each result depends only on its own vector. The order is that of Yates'
// fast transform: the level of distance h replaces a = x[i] and b = x[i+h] by a + b and a − b.
func hadamard(x, diagonal []float32, n int) {
	if n < 1 || bits.OnesCount(uint(n)) != 1 || len(x)%n != 0 || len(diagonal) != len(x) {
		panic(fmt.Sprintf("stages: hadamard: %d values, a diagonal of %d, vectors of %d", len(x), len(diagonal), n))
	}
	for i, d := range diagonal {
		x[i] = float32(x[i] * d) // without a conversion, some compilers would fuse a product and a sum, with other bits
	}
	for h := 1; h < n; h *= 2 {
		for from := 0; from < len(x); from += 2 * h {
			p, q := x[from:from+h], x[from+h:][:h]
			for i, a := range p {
				p[i], q[i] = a+q[i], a-q[i]
			}
		}
	}
}
