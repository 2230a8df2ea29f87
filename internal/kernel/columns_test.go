package kernel

import (
	"math"
	"slices"
	"testing"
)

func TestFromBytes(t *testing.T) {
	got := make([]float32, 3)
	if FromBytes(got, []uint8{0, 7, 255}); !slices.Equal(got, []float32{0, 7, 255}) {
		t.Errorf("got %v", got)
	}
}

// holes replaces every fifth value by a NaN.
func holes(x Dense) Dense {
	for i := range x.Data {
		if i%5 == 2 {
			x.Data[i] = float32(math.NaN())
		}
	}
	return x
}

func TestStandardize(t *testing.T) {
	const cols = 7
	x, center, scale := holes(random(3, cols, 1)), random(1, cols, 2).Data, random(1, cols, 3).Data
	before := slices.Clone(x.Data)
	Standardize(x, center, scale)
	for i, v := range before {
		want := float32(0)
		if v == v {
			want = (v - center[i%cols]) * scale[i%cols]
		}
		if x.Data[i] != want {
			t.Fatalf("value %d is %v, want %v", i, x.Data[i], want)
		}
	}
}

func TestAddColumns(t *testing.T) {
	const cols = 7
	x, center, weights := holes(random(4, cols, 1)), random(1, cols, 2).Data, []float32{1, 0, 2.5, 0.5}
	x.Row(1)[0] = float32(math.Inf(1)) // of weight 0
	before := Dense{Rows: 4, Cols: cols, Data: slices.Clone(x.Data)}
	sums, squares, present := make([]float64, cols), make([]float64, cols), make([]float64, cols)
	AddColumns(sums, squares, present, x, center, weights)
	for j := range cols {
		var want [3]float64
		for i, w := range weights {
			v, z := before.Row(i)[j], float32(0)
			if v == v {
				z = v - center[j]
			}
			if got := x.Row(i)[j]; got != z {
				t.Fatalf("(%d, %d) is %v, want %v", i, j, got, z)
			}
			if v == v && w > 0 {
				want[0] += float64(w) * float64(z)
				want[1] += float64(w) * float64(z) * float64(z)
				want[2] += float64(w)
			}
		}
		if got := [3]float64{sums[j], squares[j], present[j]}; got != want {
			t.Fatalf("the sums of column %d are %v, want %v", j, got, want)
		}
	}
}
