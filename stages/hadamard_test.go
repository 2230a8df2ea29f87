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

// H·D is √n times an orthogonal matrix: H·H·v = n·v, and inner products grow n times. Both are exact for small
// integers.
func TestHadamardIsOrthogonal(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 1; n <= 1024; n *= 2 {
		ones := slices.Repeat([]float32{1}, n)
		diagonal := signs(r, n)
		v, w := make([]float32, n), make([]float32, n)
		for i := range v {
			v[i], w[i] = float32(r.IntN(17)-8), float32(r.IntN(17)-8)
		}
		dot := func() (sum float64) {
			for i := range v {
				sum += float64(v[i]) * float64(w[i])
			}
			return sum
		}
		before, original := dot(), slices.Clone(v)
		hadamard(v, diagonal, n)
		hadamard(w, diagonal, n)
		if after := dot(); after != float64(n)*before {
			t.Errorf("n = %d: the inner product is %v, expected %v", n, after, float64(n)*before)
		}
		hadamard(v, ones, n)
		for i := range v {
			if want := float32(n) * diagonal[i] * original[i]; v[i] != want {
				t.Fatalf("n = %d: value %d of H·H·D·v is %v, expected %v", n, i, v[i], want)
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

func TestHadamardRefusesOtherShapes(t *testing.T) {
	for _, shape := range []struct{ values, diagonal, n int }{{8, 8, 0}, {6, 6, 6}, {8, 4, 4}, {4, 8, 4}, {10, 10, 4}, {8, 8, -8}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is taken", shape)
				}
			}()
			hadamard(make([]float32, shape.values), make([]float32, shape.diagonal), shape.n)
		}()
	}
}
