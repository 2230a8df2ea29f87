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
