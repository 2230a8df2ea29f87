package accumulate

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The field block has the values of the Gram matrix that are not 0, whatever was summed before, and fields of several segments add up.
func TestBlockIsGramMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var b Block
	for _, p := range []int{1, 63, 64, 65, 130} {
		for _, ones := range []bool{false, true} {
			cols := p
			if ones {
				cols--
			}
			want, total := make([]float64, p*(p+1)/2), &Sum{}
			for segment := range 3 {
				b.Begin(p)
				for range 2 {
					var x kernel.Sparse
					x.Begin(cols)
					x.Ones = ones
					weights := make([]float32, 30)
					for i := range weights {
						weights[i] = float32(i % 3)
						row := make([]float64, p)
						for j := range cols {
							if r.IntN(20) > 0 {
								continue
							}
							v := float32(r.NormFloat64())
							if row[j] = float64(v); weights[i] == 0 {
								v = float32(math.NaN())
							}
							x.Columns, x.Values = append(x.Columns, int32(j)), append(x.Values, v)
						}
						if ones {
							row[cols] = 1
						}
						for i2, at := 0, 0; i2 < p; i2++ {
							for j := range i2 + 1 {
								want[at] += float64(weights[i]) * row[i2] * row[j]
								at++
							}
						}
						x.End()
					}
					b.Add(x, weights)
				}
				sum := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{From: int64(segment), To: int64(segment) + 1}}}}
				b.End(sum)
				arrowtest.NoError(t, total.Merge(sum))
			}
			block, _ := total.Tensors().Find(statistics.FieldBlock)
			before := -1.0
			for pairs := block.Data; len(pairs) > 0; pairs = pairs[2:] {
				place, v := int(pairs[0]), pairs[1]
				if pairs[0] <= before || math.Abs(v-want[place]) > 1e-9 {
					t.Fatalf("%d columns, ones %v: place %v after %v has %v, expected %v", p, ones, pairs[0], before, v, want[place])
				}
				before, want[place] = pairs[0], 0
			}
			for place, v := range want {
				if v != 0 {
					t.Errorf("%d columns, ones %v: the value of place %d is missing", p, ones, place)
				}
			}
		}
	}
	misshapen := NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Vector(statistics.FieldBlock, []float64{1})})
	well := NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Matrix(statistics.FieldBlock, 1, 2, []float64{1, 2})})
	if err := well.Merge(misshapen); !errors.As(err, new(*wire.ShapeError)) {
		t.Errorf("a misshapen block: %v", err)
	}
}
