package kernel

import (
	"math"
	"slices"
	"testing"
)

func TestSums(t *testing.T) {
	for _, p := range sizes {
		x, b := random(p, p, 1), random(1, p, 2).Data
		packed := make([]float64, p*(p+1)/2)
		for i := range packed {
			packed[i] = math.NaN()
		}
		PackLower(packed, x, false)
		PackLower(packed, x, true)
		for i := range p {
			for j := range i + 1 {
				if got, want := packed[i*(i+1)/2+j], 2*float64(x.Row(i)[j]); got != want {
					t.Fatalf("p=%d: packed (%d, %d) is %v, want %v", p, i, j, got, want)
				}
			}
		}
		sum := make([]float64, p*p)
		addTo(sum, x.Data)
		original := slices.Clone(x.Data)
		AddRow(x, b)
		for i, v := range original {
			if sum[i] != float64(v) || x.Data[i] != v+b[i%p] {
				t.Fatalf("p=%d: %v became %v and %v", p, v, sum[i], x.Data[i])
			}
		}
	}
	AddRow(NewDense(3, 0), nil)
}

// Each row adds its first values to a row of the sum, and nothing else changes, with the bits of float64 additions.
func TestSumsOfRows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, k := range widths {
			for _, n := range []int{1, 2, 5} {
				stride := k + 3
				x, before := random(1, n*stride, uint64(k)).Data, make([]float64, n*k+1)
				for i := range before {
					before[i] = float64(i) / 3
				}
				x[0], before[0] = float32(math.Copysign(0, -1)), math.Copysign(0, -1)
				got, want := slices.Clone(before), slices.Clone(before)
				addRowsTo(got[:n*k], x[:len(x)-3], n, k, stride)
				for i := range n * k {
					want[i] += float64(x[i/k*stride+i%k])
				}
				other := slices.Clone(before)
				Add(other, got)
				for i := range want {
					if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
						t.Fatalf("%d rows of %d values: value %d is %v, want %v", n, k, i, got[i], want[i])
					}
					if sum := before[i] + want[i]; math.Float64bits(other[i]) != math.Float64bits(sum) {
						t.Fatalf("%d rows of %d values: value %d of a sum is %v, want %v", n, k, i, other[i], sum)
					}
				}
			}
		}
	})
	addRowsTo(nil, nil, 0, 3, 3)
	Add(nil, nil)
}
