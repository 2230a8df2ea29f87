package stages

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
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

// kernelError returns the root mean squared difference between inner products of features and the kernel, over pairs of
// rows at many distances and over stages.
func kernelError(t *testing.T, kind string, inputs, size, stages int) float64 {
	const pairs = 24
	r, sum := rand.New(rand.NewPCG(9, uint64(inputs))), 0.0
	spread := float64(inputs)
	x := kernel.NewDense(2*pairs, inputs)
	for pair := range pairs {
		a, b := x.Row(2*pair), x.Row(2*pair+1)
		for i := range a {
			a[i] = float32(r.NormFloat64())
			b[i] = a[i] + float32(r.NormFloat64()*2*float64(pair+1)/pairs)
		}
	}
	for stage := range stages {
		m := mustMap(t, schemas.Features{Kind: kind, Size: size, BandwidthScale: 1}, stage, plain(inputs, spread), 0, false)
		block := expand(m, x, kernel.Dense{})
		for pair := range pairs {
			squared, product := 0.0, 0.0
			for i, v := range x.Row(2 * pair) {
				d := float64(v) - float64(x.Row(2*pair + 1)[i])
				squared += d * d
			}
			for j, v := range block.Row(2 * pair) {
				product += float64(v) * float64(block.Row(2*pair + 1)[j])
			}
			difference := product - math.Exp(-squared/spread)
			sum += difference * difference
		}
	}
	return math.Sqrt(sum / float64(pairs*stages))
}

// The error against the kernel falls as 1/√p, and is at most that of random Fourier features, up to noise and the bias
// of transforms of length 64.
func TestStructuredFeaturesApproximateTheKernel(t *testing.T) {
	for _, inputs := range []int{1, 3, 50, 63, 64, 65, 200} {
		t.Run(fmt.Sprint(inputs), func(t *testing.T) {
			var errors []float64
			for _, size := range []int{64, 256, 1024} {
				structured, drawn := kernelError(t, SORF, inputs, size, 20), kernelError(t, RFF, inputs, size, 20)
				t.Logf("size %d: sorf %.5f, rff %.5f", size, structured, drawn)
				if structured > 1.1*drawn+0.005 {
					t.Errorf("size %d: the error is %v, of rff %v", size, structured, drawn)
				}
				errors = append(errors, structured)
			}
			for i, e := range errors[1:] {
				if fall := errors[i] / e; fall < 1.5 || fall > 2.7 {
					t.Errorf("four times the features have %v times less error, expected about 2", fall)
				}
			}
		})
	}
}
