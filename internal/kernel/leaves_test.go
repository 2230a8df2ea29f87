package kernel

import (
	"github.com/stagewise/stagewise/internal/assert"
	"math"
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
					AddLeafRows(scores[:n*k], leaves, w, n, each, k)
					assert.Need(t, slices.Equal(scores, want), "%d rows, %d classes, %d trees of %d leaves: other scores", n, k, trees, each)
				}
			}
		}
		for _, each := range []int{2, 5, 32, 64} {
			for at := range 19 {
				leaves := make([]uint8, 19)
				leaves[at] = uint8(each)
				assert.True(t, panics(func() { AddLeafRows(make([]float32, 19), leaves, make([]float32, each), 19, each, 1) }),
					"a leaf behind its tree of %d is read", each)
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
					AddLeafResiduals(sums[:size], leaves, residuals, n, each, k)
					assert.Need(t, slices.Equal(sums, want), "%d rows, %d classes, %d trees of %d leaves: other sums", n, k, trees, each)
				}
			}
		}
		for at := range 38 {
			leaves := make([]uint8, 38)
			leaves[at] = 5
			assert.True(t, panics(func() { AddLeafResiduals(make([]float64, 20), leaves, make([]float32, 38), 19, 5, 2) }),
				"a leaf behind its tree is written")
		}
	})
}

// edges straddle the rows (4, 6 or 8) and columns (8 or 16) that the narrow products process at once.
var edges = []int{1, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 65}

func TestNarrowProductsAgainstFloat64(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, b := range backends(t) {
			for _, n := range edges {
				for _, p := range edges {
					for _, k := range []int{1, 7, 8, 9, 10, 15, 16, 17, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100, 127, 128, 129} {
						x, w, r := random(n, p, 1), random(p, k, 2), random(n, k, 3)
						// values past the results must not change
						padded := fill(n+1, k, 2)
						b.MulAdd(padded.Slice(0, n), x, NewWeights(w))
						want, scale := product(x, w, false)
						for i, v := range padded.Data[:n*k] {
							assert.Need(t, math.Abs(float64(v)-2-want[i]) <= 1e-6*(scale+2),
								"%s: MulAdd %d×%d×%d: value %d is %v, want %v", b.Name(), n, p, k, i, v, want[i]+2)
						}
						for _, v := range padded.Row(n) {
							assert.Need(t, v == 2, "%s: MulAdd %d×%d×%d wrote past its rows", b.Name(), n, p, k)
						}
						var c Cross
						c.Begin(p, k)
						sum := slices.Repeat([]float64{1}, p*k)
						for range 2 {
							c.Add(b, x, r, slices.Repeat([]float32{1}, n))
						}
						c.AddTo(sum)
						want, scale = product(x, r, true)
						for i, v := range sum {
							assert.Need(t, math.Abs(v-1-2*want[i]) <= 1e-6*(2*scale+1),
								"%s: Cross %d×%d×%d: value %d is %v, want %v", b.Name(), n, p, k, i, v, 2*want[i]+1)
						}
					}
				}
			}
		}
	})
}

// A row of weight w adds w times its product. Rows of weight 0 add nothing, even if not finite.
func TestCrossOfWeights(t *testing.T) {
	nan := float32(math.NaN())
	withEachAcceleration(t, func(t *testing.T) {
		for _, k := range []int{8, 10, 17, 33, 100} {
			for _, pattern := range [][]float32{{1}, {0}, {2}, {1, 0}, {0, 3, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5}} {
				const n, p = 65, 33
				x, r := random(n, p, 1), random(n, k, 2)
				weights, wx := make([]float32, n), Dense{Rows: n, Cols: p, Data: slices.Clone(x.Data)}
				for i := range weights {
					weights[i] = pattern[i%len(pattern)]
					for j := range p {
						if wx.Row(i)[j] *= weights[i]; weights[i] == 0 {
							x.Row(i)[j] = nan
						}
					}
				}
				var c Cross
				c.Begin(p, k)
				c.Add(Gonum(), x, r, weights)
				sum := make([]float64, p*k)
				c.AddTo(sum)
				want, scale := product(wx, r, true)
				for i, v := range sum {
					assert.Need(t, math.Abs(v-want[i]) <= 1e-6*(scale+1), "weights %v: value %d is %v, want %v", pattern, i, v, want[i])
				}
			}
		}
	})
}

// The bits of a narrow product depend neither on the number of rows per call nor on the vector instructions.
func TestNarrowProductsDoNotDependOnTheCut(t *testing.T) {
	for _, k := range []int{8, 10, 33, 100, 128} {
		const n, p = 130, 161
		x, r, weights := random(n, p, 1), random(n, k, 2), random(p, k, 3)
		ones := slices.Repeat([]float32{1}, n)
		var product Dense
		var cross []float64
		withEachAcceleration(t, func(t *testing.T) {
			if !hasAVX2() {
				t.Log("without vector instructions of ours a BLAS may cut as it likes")
				return
			}
			b, w := Gonum(), NewWeights(weights)
			for _, rows := range []int{n, 64, 63, 8, 7, 6, 4, 3, 1} {
				dst, sum := NewDense(n, k), make([]float64, p*k)
				var c Cross
				c.Begin(p, k)
				for from := 0; from < n; from += rows {
					to := min(from+rows, n)
					b.MulAdd(dst.Slice(from, to), x.Slice(from, to), w)
					c.Add(b, x.Slice(from, to), r.Slice(from, to), ones[from:to])
				}
				c.AddTo(sum)
				if cross == nil {
					product, cross = dst, sum
				}
				assert.True(t, slices.Equal(dst.Data, product.Data) && slices.Equal(sum, cross), "k=%d: with %d rows a call the bits differ", k, rows)
			}
		})
	}
}
