package kernel

import (
	"math"
	"testing"
)

// The sums match the definition, for patches and their mirror images, for all row counts and filter counts around those
// of the loops, and with shared or separate sums.
func TestAddResponses(t *testing.T) {
	const threshold = 0.25
	withEachAcceleration(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 17} {
			for _, f := range []int{1, 15, 16, 17, 65, filtersPerPart + 1} {
				for _, shape := range [][2]int{{1, 0}, {7, 0}, {5, 3}, {9, 1}, {28, 21}} { // even rows, and others
					even, q := shape[0], shape[0]+shape[1]
					x, w := random(n, q, 1), random(q, f, 2)
					for _, same := range []bool{false, true} {
						sums, mirrored := random(2, f, 3), random(2, f, 4)
						if same {
							mirrored = sums
						}
						want := [2][]float64{make([]float64, 2*f), make([]float64, 2*f)}
						for j := range 2 * f {
							want[0][j], want[1][j] = float64(sums.Data[j]), float64(mirrored.Data[j])
						}
						if same {
							want[1] = want[0]
						}
						for i := range n {
							for j := range f {
								for side := range 2 {
									z := 0.0
									for l := range q {
										sign := 1.0
										if side == 1 && l >= even {
											sign = -1
										}
										z += sign * float64(x.Row(i)[l]) * float64(w.Row(l)[j])
									}
									if side == 0 || even < q {
										want[side][j] += max(z, threshold)
										want[side][f+j] += max(-z, threshold)
									}
								}
							}
						}
						filters := NewFilters(w, even)
						Gonum().AddResponses(sums, mirrored, x, filters, threshold, make([]float32, filters.Scratch(n)))
						for side, got := range []Dense{sums, mirrored} {
							for j, v := range got.Data {
								if math.Abs(float64(v)-want[side][j]) > 1e-4 {
									t.Fatalf("%d×%d (%d even) by %d filters: side %d, sum %d is %v, expected %v", n, q, even, f, side, j, v, want[side][j])
								}
							}
						}
					}
				}
			}
		}
	})
}

// A NaN pixel makes all sums NaN, with and without vector instructions.
func TestAddResponsesOfNaN(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		x := random(7, 6, 1)
		x.Data[3] = float32(math.NaN())
		sums, mirrored := NewDense(2, 17), NewDense(2, 17)
		filters := NewFilters(random(6, 17, 2), 4)
		Gonum().AddResponses(sums, mirrored, x, filters, 0.5, make([]float32, filters.Scratch(7)))
		for _, got := range []Dense{sums, mirrored} {
			for j, v := range got.Data {
				if v == v {
					t.Fatalf("sum %d is %v, expected a NaN", j, v)
				}
			}
		}
	})
}
