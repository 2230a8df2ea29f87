package tree

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// without returns the mean score of a tree over rows of which only the columns in a set are known, as the covers say.
func without(f Forest, node, leaf, nodes, firstLeaf int, codes []uint8, known uint, scores []float64) float64 {
	if nodes == 0 {
		return scores[leaf]
	}
	order, left := int(f.Compared[node]), int(f.Lefts[node])
	sides := func(right bool) float64 {
		if right {
			return without(f, node+1+left, leaf+left+1, nodes-1-left, firstLeaf, codes, known, scores)
		}
		return without(f, node+1, leaf, left, firstLeaf, codes, known, scores)
	}
	column := f.Orders.Columns[order]
	if known>>column&1 == 1 {
		rank := codes[column]
		if ranks := f.Orders.RanksOf(order); ranks != nil {
			rank = ranks[rank]
		}
		return sides(rank > f.Cuts[node])
	}
	cover := func(leaf, n int) (sum float64) {
		for _, w := range f.Covers[firstLeaf+leaf:][:n] {
			sum += float64(w)
		}
		return sum
	}
	share := float64(left+1) / float64(nodes+1)
	if all := cover(leaf, nodes+1); all > 0 {
		share = cover(leaf, left+1) / all
	}
	return share*sides(false) + (1-share)*sides(true)
}

// shapley returns the Shapley values of columns by their definition: the mean over all sets of the other columns.
func shapley(columns int, value func(known uint) float64) (base float64, values []float64) {
	factorial := func(n int) float64 { return math.Gamma(float64(n + 1)) }
	values = make([]float64, columns)
	for j := range columns {
		for set := range uint(1) << columns {
			if set>>j&1 == 0 {
				n := bits.OnesCount(set)
				weight := factorial(n) * factorial(columns-n-1) / factorial(columns)
				values[j] += weight * (value(set|1<<j) - value(set))
			}
		}
	}
	return value(0), values
}

// Contributions are the Shapley values by definition, also of trees of one chain, of rows that no cover has, of columns that share a
// place, and of scores that add up to 0.
func TestContributionsAreShapleyValues(t *testing.T) {
	for _, c := range []struct {
		columns, words, outputs, leaves int
		chain, opposite                 bool
	}{{1, 0, 1, 2, false, false}, {4, 1, 2, 32, false, false}, {8, 2, 3, 32, false, false}, {8, 0, 1, 64, false, false},
		{8, 1, 2, 64, true, false}, {4, 1, 2, 32, false, true}, {8, 2, 3, 32, false, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, uint64(c.columns)))
			s := sampleOf(9, 900, c.columns, c.outputs, true)
			f := Grow(s.dense(), s.columns, ordersOf(9, s, c.words), Shape{5, c.leaves, 5, 0.5, 2}, 1, 1, 1)
			if c.chain {
				for i := range f.Lefts {
					f.Lefts[i] = 0
				}
			}
			for i := range f.Covers[:len(f.Covers)/3] {
				f.Covers[i] *= float32(random.IntN(2))
			}
			weights := make([]float32, f.Size()*c.outputs)
			for i := range weights {
				if weights[i] = float32(random.NormFloat64()); c.opposite && i%c.outputs == c.outputs-1 {
					weights[i] = 0
					for _, w := range weights[i+1-c.outputs : i] {
						weights[i] -= w
					}
				}
			}
			places := make([]int, c.columns)
			for j := range places {
				places[j] = j * 2 / 3 // some share a place
			}
			contributions := assert.Must(NewContributions(f, places, weights, c.outputs))(t)
			const n = 12
			codes, width := s.codes[:n*c.columns], (places[c.columns-1]+1)*c.outputs
			for i := range codes[:c.columns] {
				codes[i] = 255
			}
			results := make([]float64, n*width)
			contributions.Add(results, codes)
			contributions.Add(results, codes) // to what is there
			for i := range n {
				for out := range c.outputs {
					want, wantBase := make([]float64, width/c.outputs), 0.0
					first, leaf := 0, 0
					for tree, size := range f.Sizes {
						scores := make([]float64, size+1)
						for l := range scores {
							scores[l] = float64(weights[(tree*f.Leaves+l)*c.outputs+out])
						}
						base, values := shapley(c.columns, func(known uint) float64 {
							return without(f, first, 0, int(size), leaf, codes[i*c.columns:][:c.columns], known, scores)
						})
						wantBase += base
						for j, v := range values {
							want[places[j]] += v
						}
						first, leaf = first+int(size), leaf+int(size)+1
					}
					got := contributions.Base()[out]
					assert.Need(t, math.Abs(got-wantBase) <= 1e-6, "output %d: base %g, want %g", out, got, wantBase)
					for place, v := range want {
						got := results[(place*c.outputs+out)*n+i] / 2
						assert.Need(t, math.Abs(got-v) <= 1e-6, "row %d, output %d, place %d: %g, want %g", i, out, place, got, v)
					}
				}
			}
		})
	}
}

// Contributions are those of the package shap: testdata/contributions.py wrote its own.
func TestContributionsAreThoseOfShap(t *testing.T) {
	t.Parallel()
	var want struct {
		Trees []struct {
			Columns, Covers []int32
			Cuts, Lefts     []int
			Weights         [][]float32
		}
		Rows   [][]int
		Base   []float64
		Values [][][]float64
	}
	assert.NoError(t, json.Unmarshal(assert.Must(os.ReadFile("testdata/shap.json"))(t), &want))
	columns, k := len(want.Rows[0]), len(want.Base)
	f, weights := Forest{Leaves: 32}, []float32(nil)
	for j := range columns {
		f.Orders.Columns = append(f.Orders.Columns, int32(j))
	}
	places := make([]int, columns)
	for j := range places {
		places[j] = j
	}
	for _, tree := range want.Trees {
		f.Sizes, f.Compared = append(f.Sizes, uint8(len(tree.Cuts))), append(f.Compared, tree.Columns...)
		for i, cut := range tree.Cuts {
			f.Cuts, f.Lefts = append(f.Cuts, uint8(cut)), append(f.Lefts, uint8(tree.Lefts[i]))
		}
		for _, cover := range tree.Covers {
			f.Covers = append(f.Covers, float32(cover))
		}
		of := make([]float32, f.Leaves*k)
		copy(of, slices.Concat(tree.Weights...))
		weights = append(weights, of...)
	}
	assert.NoError(t, f.Check(columns))
	contributions := assert.Must(NewContributions(f, places, weights, k))(t)
	for out, base := range want.Base {
		assert.Near(t, contributions.Base()[out], base, 1e-6, "output %d: base", out)
	}
	var codes []uint8
	for _, row := range want.Rows {
		for _, code := range row {
			codes = append(codes, uint8(code))
		}
	}
	n := len(want.Rows)
	results := make([]float64, n*columns*k)
	contributions.Add(results, codes)
	for i, values := range want.Values {
		for j, of := range values {
			for out, v := range of {
				assert.Near(t, results[(j*k+out)*n+i], v, 1e-6*max(1, math.Abs(v)), "row %d, column %d, output %d", i, j, out)
			}
		}
	}
}

func BenchmarkContributions(b *testing.B) {
	for _, outputs := range []int{1, 2} {
		b.Run(fmt.Sprintf("outputs=%d", outputs), func(b *testing.B) {
			const n, stages = 1024, 22
			s := sampleOf(8, 8192, 28, outputs, false)
			var all []*Contributions
			for stage := range uint64(stages) {
				f := Grow(s.dense(), s.columns, ordersOf(8, s, 0), Shape{32, 32, 5, 0.5, 4}, 1, stage, 2)
				places, weights := make([]int, 28), make([]float32, f.Size()*outputs)
				for j := range places {
					places[j] = j
				}
				for i := range weights { // of two outputs they are opposite, as a softmax has them
					weights[i] = float32((i/2%7 + 1) * (1 - 2*(i%2)))
				}
				c := assert.Must(NewContributions(f, places, weights, outputs))(b)
				all = append(all, c)
			}
			results := make([]float64, n*28*outputs)
			add := func() {
				for _, c := range all {
					c.Add(results, s.codes[:n*28])
				}
			}
			add()
			for b.Loop() {
				add()
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
