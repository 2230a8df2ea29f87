package prepare

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Equal rows of the sample are prepared to equal bits, at any position.
func TestEqualRowsArePreparedEqually(t *testing.T) {
	const n = 200
	blas := arrowtest.Must(kernel.Open(""))(t)
	for _, d := range []int{3, 63, 64, 65, 784} {
		for _, components := range []int{0, 2} {
			r := rand.New(rand.NewPCG(uint64(d), 1))
			draw := func(n int) []float32 {
				values := make([]float32, n)
				for i := range values {
					values[i] = r.Float32()
				}
				return values
			}
			center, scale, basis := draw(d), draw(d), draw(d*components)
			usual, sample := draw(d), kernel.NewDense(n, d)
			for i := range n {
				copy(sample.Row(i), usual)
				if i%7 == 3 {
					copy(sample.Row(i), draw(d))
				}
			}
			rows := Sample(blas, schemas.Prepare{PCA: components}, center, scale, basis, nil, sample)
			for i := range n {
				if i%7 != 3 && !slices.Equal(rows.Row(i), rows.Row(0)) {
					t.Fatalf("%d features, %d components: row %d is %v, row 0 is %v", d, components, i, rows.Row(i), rows.Row(0))
				}
			}
		}
	}
}
