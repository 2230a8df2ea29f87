package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Scores are bitwise identical to those of the Go loop, and values past the end do not change.
func TestAddLeafRows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 3))
		for _, k := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33} {
			for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 65} {
				for _, of := range [][2]int{{0, 4}, {1, 2}, {3, 31}, {32, 32}, {5, 64}} {
					trees, each := of[0], of[1]
					leaves, w, scores := make([]uint8, trees*n), make([]float32, trees*each*k), make([]float32, n*k+1)
					for i := range leaves {
						leaves[i] = uint8(r.IntN(each))
					}
					for _, values := range [][]float32{w, scores} {
						for i := range values {
							values[i] = float32(r.NormFloat64())
						}
					}
					if n == 0 {
						w = nil
					}
					want := slices.Clone(scores)
					for i := range n {
						for tree := range trees {
							for c := range k {
								want[i*k+c] += w[(tree*each+int(leaves[tree*n+i]))*k+c]
							}
						}
					}
					if AddLeafRows(scores[:n*k], leaves, w, n, each, k); !slices.Equal(scores, want) {
						t.Fatalf("%d rows, %d classes, %d trees of %d leaves: other scores", n, k, trees, each)
					}
				}
			}
		}
		for _, each := range []int{2, 5, 32, 64} {
			for at := range 19 {
				func() {
					defer func() {
						if recover() == nil {
							t.Errorf("a leaf behind its tree of %d is read", each)
						}
					}()
					leaves := make([]uint8, 19)
					leaves[at] = uint8(each)
					AddLeafRows(make([]float32, 19), leaves, make([]float32, each), 19, each, 1)
				}()
			}
		}
	})
}

// Sums are bitwise identical to those of the Go loop, and values past the end do not change.
func TestAddLeafResiduals(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 4))
		for _, k := range []int{1, 2, 3, 4, 5, 6, 7, 8, 18, 65} {
			for _, n := range []int{0, 1, 2, 63, 64, 65} {
				for _, of := range [][2]int{{0, 4}, {1, 2}, {2, 31}, {3, 31}, {5, 64}} {
					trees, each := of[0], of[1]
					size := trees * each * k
					leaves, residuals, sums := make([]uint8, trees*n), make([]float32, n*k), make([]float64, size+1)
					for i := range leaves {
						leaves[i] = uint8(r.IntN(each))
					}
					for i := range residuals {
						residuals[i] = float32(r.NormFloat64())
					}
					for i := range sums {
						sums[i] = r.NormFloat64()
					}
					want := slices.Clone(sums)
					for i := range n {
						for tree := range trees {
							for c := range k {
								want[(tree*each+int(leaves[tree*n+i]))*k+c] += float64(residuals[i*k+c])
							}
						}
					}
					if AddLeafResiduals(sums[:size], leaves, residuals, n, each, k); !slices.Equal(sums, want) {
						t.Fatalf("%d rows, %d classes, %d trees of %d leaves: other sums", n, k, trees, each)
					}
				}
			}
		}
		for at := range 38 {
			leaves := make([]uint8, 38)
			leaves[at] = 5
			if !panics(func() { AddLeafResiduals(make([]float64, 20), leaves, make([]float32, 38), 19, 5, 2) }) {
				t.Error("a leaf behind its tree is written")
			}
		}
	})
}
