package stages

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
)

// structured returns the angles w·x of the first size features of a row, by the definition of [SORF], in float64 and
// without a fast transform.
func structured(x []float32, stage, size int, deviation float64) []float64 {
	n := 64
	for n < len(x) {
		n *= 2
	}
	draws := stream(seed, uint64(stage), 5)
	var angles []float64
	for t := 0; t*n < size; t++ {
		v := make([]float64, n)
		copy(v, oracle.Wide(x))
		for r := range 3 {
			flipped := make([]float64, n)
			for i := range v {
				sign := 1 - 2*float64(draws.word(uint64((3*t+r)*n+i))>>63)
				flipped[i] = sign * v[i]
			}
			for i := range v {
				v[i] = 0
				for j, f := range flipped {
					sign := 1 - 2*float64(bits.OnesCount(uint(i&j))%2)
					v[i] += sign * f / math.Sqrt(float64(n))
				}
			}
		}
		for _, value := range v {
			angles = append(angles, deviation*math.Sqrt(float64(n))*value)
		}
	}
	return angles[:size]
}

func TestStructuredFeaturesAgainstTheDefinition(t *testing.T) {
	const spread = 11
	for _, inputs := range []int{1, 2, 50, 63, 64, 65, 200} {
		x := normals(3, inputs, 1)
		for _, size := range []int{1, 63, 64, 65, 300} {
			f := schemas.Features{Kind: SORF, Size: size, BandwidthScale: 2}
			block := expand(mustMap(t, f, 1, plain(inputs, spread), 0, true), x, kernel.Dense{})
			for i := range x.Rows {
				want := defined(f, 1, spread, x.Row(i))
				for j, v := range block.Row(i)[:size] {
					if math.Abs(float64(v)-want[j]) > 1e-5 {
						t.Fatalf("%d inputs, size %d: feature %d of row %d is %v, expected %v", inputs, size, j, i, v, want[j])
					}
				}
			}
		}
	}
}

// The features of a row have the same bits for any other rows in the batch, with any BLAS.
func TestStructuredFeaturesOfARowDependOnItAlone(t *testing.T) {
	x := normals(65, 70, 1)
	m := mustMap(t, schemas.Features{Kind: SORF, Size: 200, BandwidthScale: 1}, 0, plain(70, 100), 0, true)
	all := expand(m, x, kernel.Dense{})
	for i := range x.Rows {
		if alone := expand(m, x.Slice(i, i+1), kernel.Dense{}); !slices.Equal(alone.Data, all.Row(i)) {
			t.Fatalf("row %d has other bits alone", i)
		}
	}
}
