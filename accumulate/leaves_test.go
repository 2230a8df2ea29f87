package accumulate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Sums of leaves add the rows in order, however they are divided into calls: they are bitwise identical to the definition.
func TestLeavesAsDefined(t *testing.T) {
	for _, c := range []struct{ rows, trees, leaves, outputs, intercept int }{
		{1, 1, 2, 1, 0}, {63, 3, 31, 2, 1}, {300, 5, 32, 3, 0}, {500, 3, 64, 1, 1}, {0, 2, 3, 2, 0}, {64, 32, 32, 2, 1}, {2100, 2, 5, 1, 1},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		leaves, h, residuals := make([]uint8, c.trees*c.rows), make([]float32, c.rows), kernel.NewDense(c.rows, c.outputs)
		for i := range leaves {
			leaves[i] = uint8(r.IntN(c.leaves))
		}
		for _, values := range [][]float32{h, residuals.Data} {
			for i := range values {
				values[i] = float32(r.NormFloat64())
			}
		}
		p, k := c.trees*c.leaves+c.intercept, c.outputs
		gram, cross, words := make([]float64, p*(p+1)/2), make([]float64, p*k), make([]float64, tree.Codes*(k+1))
		for i := range c.rows {
			set := make([]int, c.trees, c.trees+1) // the columns that are 1, ascending
			for at := range set {
				set[at] = at*c.leaves + int(leaves[at*c.rows+i])
			}
			if c.intercept > 0 {
				set = append(set, p-1)
			}
			for a, row := range set {
				for _, column := range set[:a+1] {
					gram[row*(row+1)/2+column] += float64(h[i])
				}
				for output, v := range residuals.Row(i) {
					cross[row*k+output] += float64(v)
				}
			}
			code := int(leaves[i]) * (k + 1)
			for output, v := range residuals.Row(i) {
				words[code+output] += float64(v)
			}
			words[code+k] += float64(h[i])
		}
		for _, part := range []int{c.rows, 1, 100} {
			var sum Sum
			for from := 0; from < c.rows; from += part {
				to := min(from+part, c.rows)
				l := tree.Leaves{Rows: to - from, Trees: c.trees}
				for at := range c.trees {
					l.Data = append(l.Data, leaves[at*c.rows:][from:to]...)
				}
				sum.AddLeaves(l, c.leaves, p, h[from:to])
				sum.AddLeafResiduals(l, c.leaves, p, residuals.Slice(from, to))
				sum.AddWords([]int{0}, l.Data[:l.Rows], 1, residuals.Slice(from, to), h[from:to])
			}
			assert.True(t, slices.Equal(sum.Field(statistics.FieldGram, p*(p+1)/2), gram), "%+v, %d rows a call: the pairs differ", c, part)
			assert.True(t, slices.Equal(sum.Field(statistics.FieldCross, p, k), cross), "%+v, %d rows a call: the cross moments differ", c, part)
			assert.True(t, slices.Equal(sum.Field(statistics.FieldWords, 1, tree.Codes, k+1), words), "%+v, %d rows a call: the words differ", c, part)
		}
	}
}
