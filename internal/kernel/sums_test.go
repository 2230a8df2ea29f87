package kernel

import (
	"math"
	"slices"
	"testing"
)

func TestSums(t *testing.T) {
	for _, p := range sizes {
		x, b := random(p, p, 1), random(1, p, 2).Data
		packed := make([]float32, p*(p+1)/2)
		PackLower(packed, x)
		for i := range p {
			for j := range i + 1 {
				if got, want := packed[i*(i+1)/2+j], x.Row(i)[j]; got != want {
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

// The bits are those of sequential float64 additions, for any number of values at a time.
func TestSumsOfEach(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 63, 64, 65, addedAtOnce - 1, addedAtOnce, 2*addedAtOnce + 3} {
			var lists [][]float32
			want := make([]float64, n)
			for i := range 5 {
				x := random(1, n, uint64(i)).Data
				if lists = append(lists, x); i == 0 && n > 0 {
					x[0] = float32(math.Copysign(0, -1)) // written, not added to 0
				}
				for j, v := range x {
					if want[j] += float64(v); i == 0 {
						want[j] = float64(v)
					}
				}
				got := make([]float64, n)
				for j := range got {
					got[j] = math.NaN()
				}
				AddEach(got, false, lists[:1]...)
				AddEach(got, true, lists[1:]...)
				together := make([]float64, n)
				AddEach(together, false, lists...)
				for j, v := range want {
					if bits := math.Float64bits(v); math.Float64bits(got[j]) != bits || math.Float64bits(together[j]) != bits {
						t.Fatalf("%d lists of %d values: value %d is %v, or %v, want %v", i+1, n, j, got[j], together[j], v)
					}
				}
			}
		}
	})
	unchanged := []float64{7}
	AddEach(unchanged, true)
	if AddEach(unchanged, false); unchanged[0] != 7 {
		t.Error("no list changes a sum")
	}
}

// Each row adds its first values to a row of the sum, with the bits of float64 additions. Other values do not change.
func TestSumsOfRows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, k := range []int{1, 7, 16, 63, 64, 65} {
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
