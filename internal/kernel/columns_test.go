package kernel

import (
	"math"
	"slices"
	"testing"
)

// holes replaces every fifth value of the first rows by a NaN.
func holes(x Dense) Dense {
	for i := range x.Slice(0, 3).Data {
		if i%5 == 2 {
			x.Data[i] = float32(math.NaN())
		}
	}
	return x
}

func TestStandardize(t *testing.T) {
	for _, cols := range sizes {
		x, center, scale := holes(random(6, cols, 1)), random(1, cols, 2).Data, random(1, cols, 3).Data
		before := slices.Clone(x.Data)
		Standardize(x, center, scale)
		for i, v := range before {
			want := float32(0)
			if v == v {
				want = (v - center[i%cols]) * scale[i%cols]
			}
			if x.Data[i] != want {
				t.Fatalf("%d columns: value %d is %v, want %v", cols, i, x.Data[i], want)
			}
		}
	}
}

func TestUnitRows(t *testing.T) {
	for _, cols := range append([]int{chunk + 40}, sizes...) {
		x := holes(random(8, cols, 1))
		clear(x.Row(6))
		for j := range x.Row(7) {
			x.Row(7)[j] *= 1e-44
		}
		before := Dense{Rows: 8, Cols: cols, Data: slices.Clone(x.Data)}
		UnitRows(x)
		for i := range x.Rows {
			length := 0.0
			for _, v := range before.Row(i) {
				if v == v {
					length += float64(v) * float64(v)
				}
			}
			for j, v := range before.Row(i) {
				want, got := float64(v), float64(x.Row(i)[j])
				if length > 0 {
					want /= math.Sqrt(length)
				}
				if !(math.Abs(got-want) <= 1e-7) && !(v != v && got != got) {
					t.Fatalf("%d columns: (%d, %d) is %v, want %v", cols, i, j, got, want)
				}
			}
		}
	}
}

func TestAddColumns(t *testing.T) {
	for _, cols := range append([]int{chunk + 40}, sizes...) {
		x, center, weights := holes(random(6, cols, 1)), random(1, cols, 2).Data, []float32{1, 0, 2.5, 0.5, 3, 1}
		x.Row(1)[0] = float32(math.Inf(1)) // of weight 0
		before := Dense{Rows: 6, Cols: cols, Data: slices.Clone(x.Data)}
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
					t.Fatalf("%d columns: (%d, %d) is %v, want %v", cols, i, j, got, z)
				}
				if v == v && w > 0 {
					want[0] += float64(w) * float64(z)
					want[1] += float64(w) * float64(z) * float64(z)
					want[2] += float64(w)
				}
			}
			if got := [3]float64{sums[j], squares[j], present[j]}; got != want {
				t.Fatalf("%d columns: the sums of column %d are %v, want %v", cols, j, got, want)
			}
		}
	}
}
