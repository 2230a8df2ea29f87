package stages

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// signs returns n times 1 or −1.
func signs(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(1 - 2*r.IntN(2))
	}
	return s
}

func TestHadamardAgainstTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 1024; n *= 2 {
		for _, vectors := range []int{0, 1, 3} {
			x, diagonal := make([]float32, vectors*n), make([]float32, vectors*n)
			for i := range x {
				x[i], diagonal[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			got := slices.Clone(x)
			hadamard(got, diagonal, n)
			for i, v := range got {
				first, want := i-i%n, 0.0
				for j := range n {
					term := float64(x[first+j]) * float64(diagonal[first+j])
					if bits.OnesCount(uint((i%n)&j))%2 == 1 {
						term = -term
					}
					want += term
				}
				if math.Abs(float64(v)-want) > 1e-6*float64(n) {
					t.Fatalf("value %d of %d vectors of %d is %v, expected %v", i, vectors, n, v, want)
				}
			}
		}
	}
}

// The bits are those of a level-by-level transform, and do not depend on neighbouring vectors.
func TestHadamardAddsInOneOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := 1; n <= 2048; n *= 2 {
		const vectors = 3
		x, diagonal := make([]float32, vectors*n), signs(r, vectors*n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		want := slices.Clone(x)
		for i, d := range diagonal {
			want[i] *= d
		}
		for h := 1; h < n; h *= 2 {
			for i := range want {
				if i&h == 0 {
					want[i], want[i+h] = want[i]+want[i+h], want[i]-want[i+h]
				}
			}
		}
		hadamard(x, diagonal, n)
		if !slices.Equal(x, want) {
			t.Errorf("n = %d has other bits than level by level", n)
		}
	}
}
