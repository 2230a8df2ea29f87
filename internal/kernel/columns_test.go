package kernel

import (
	"math"
	"slices"
	"testing"
)

func TestFromBytes(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, n := range append([]int{0, 15, 16, 17, 33}, sizes...) {
			src, padded := make([]uint8, n), slices.Repeat([]float32{-1}, n+1)
			for i := range src {
				src[i] = uint8(7*i + 250)
			}
			FromBytes(padded[:n], src)
			for i, v := range src {
				if padded[i] != float32(v) {
					t.Fatalf("value %d of %d is %v, want %d", i, n, padded[i], v)
				}
			}
			if padded[n] != -1 {
				t.Fatalf("%d values: wrote past the end", n)
			}
		}
	})
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
	withEachAcceleration(t, func(t *testing.T) {
		for _, cols := range append([]int{15, 16, 17}, sizes...) {
			x, center, scale := holes(random(3, cols, 1)), random(1, cols, 2).Data, random(1, cols, 3).Data
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
	})
}

func TestAddColumns(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, cols := range append([]int{7, 8, 9}, sizes...) {
			x, center, weights := holes(random(4, cols, 1)), random(1, cols, 2).Data, []float32{1, 0, 2.5, 0.5}
			x.Row(1)[0] = float32(math.Inf(1)) // of weight 0
			before := Dense{Rows: 4, Cols: cols, Data: slices.Clone(x.Data)}
			padded := slices.Repeat([]float64{3}, 3*(cols+1))
			sums, squares, present := padded[:cols], padded[cols+1:2*cols+1], padded[2*cols+2:3*cols+2]
			AddColumns(sums, squares, present, x, center, weights)
			for j := range cols {
				want := [3]float64{3, 3, 3}
				for i, w := range weights {
					v := before.Row(i)[j]
					z := v - center[j]
					if v != v {
						z = 0
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
				for s, got := range [3]float64{sums[j], squares[j], present[j]} {
					if !(math.Abs(got-want[s]) <= 1e-14*(1+math.Abs(want[s]))) {
						t.Fatalf("%d columns: sum %d of column %d is %v, want %v", cols, s, j, got, want[s])
					}
				}
			}
			if padded[cols] != 3 || padded[2*cols+1] != 3 || padded[3*cols+2] != 3 {
				t.Fatalf("%d columns: wrote past the sums", cols)
			}
		}
	})
}
