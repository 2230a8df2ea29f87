package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// project computes the projection by trying every support S, the entries that stay positive: v = x − (Σ_S x − 1)/|S| on S.
func project(x []float32) []float64 {
	var best []float64
	distance := math.Inf(1)
	for set := 1; set < 1<<len(x); set++ {
		var sum, size float64
		for i, v := range x {
			if set>>i&1 == 1 {
				sum += float64(v)
				size++
			}
		}
		candidate := make([]float64, len(x))
		d, feasible := 0.0, true
		for i, v := range x {
			if set>>i&1 == 1 {
				candidate[i] = float64(v) - (sum-1)/size
				feasible = feasible && candidate[i] >= 0
			}
			d += (candidate[i] - float64(v)) * (candidate[i] - float64(v))
		}
		if feasible && d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

func TestSimplexIsTheNearestPoint(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for trial := range 400 {
		x := random(1, 1+trial%9, uint64(trial))
		scale := float32(math.Exp(3 * r.NormFloat64()))
		for i := range x.Data {
			x.Data[i] *= scale
			if r.IntN(4) == 0 {
				x.Data[i] = x.Data[0] // ties
			}
		}
		want := project(x.Data)
		SimplexRows(x, nil)
		for i, v := range x.Data {
			if math.Abs(float64(v)-want[i]) > 2e-7 {
				t.Fatalf("trial %d: %v, want %v", trial, x.Data, want)
			}
		}
	}
}

func TestSimplexLaws(t *testing.T) {
	for _, cols := range append([]int{2, 1000}, sizes...) {
		for _, scale := range []float32{1e-3, 1, 100, 1e6} {
			x := random(20, cols, 3)
			for i := range x.Data {
				x.Data[i] *= scale
			}
			original := slices.Clone(x.Data)
			SimplexRows(x, make([]float32, cols))
			again := Dense{Rows: 20, Cols: cols, Data: slices.Clone(x.Data)}
			SimplexRows(again, nil)
			for i := range x.Rows {
				row := x.Row(i)
				var sum float64
				for j, v := range row {
					sum += float64(v)
					if v < 0 {
						t.Fatalf("cols=%d: %v is negative", cols, v)
					}
					if d := v - again.Row(i)[j]; d > 3e-7 || d < -3e-7 {
						t.Fatalf("cols=%d: a second projection moves %v by %v", cols, v, d)
					}
					for l := range j {
						if (original[i*cols+j]-original[i*cols+l])*(v-row[l]) < 0 {
							t.Fatalf("cols=%d: the order of %d and %d is reversed", cols, j, l)
						}
					}
				}
				if math.Abs(sum-1) > 1e-6 {
					t.Fatalf("cols=%d scale=%v: the sum is %v", cols, scale, sum)
				}
			}
		}
	}
}

func TestSimplexOfWhatIsNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := Dense{Rows: 3, Cols: 3, Data: []float32{0, nan, 1, inf, 0, 0, 2, -inf, 0}}
	SimplexRows(x, nil)
	if !isNaN(x.Data[1]) || !isNaN(x.Data[3]) {
		t.Errorf("a row with a NaN or infinity is not NaN: %v", x.Data)
	}
	if !slices.Equal(x.Row(2), []float32{1, 0, 0}) {
		t.Errorf("row with −Inf is %v", x.Row(2))
	}
}
