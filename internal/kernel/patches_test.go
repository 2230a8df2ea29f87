package kernel

import (
	"math"
	"testing"
)

func TestCopyWindows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		src := make([]float32, 400)
		for i := range src {
			src[i] = float32(i)
		}
		for _, width := range []int{1, 3, 8, 9, 16, 18, 33} {
			const n, height, step, stride = 4, 3, 3, 40
			padded := make([]float32, n*height*width+1)
			CopyWindows(Dense{Rows: n, Cols: height * width, Data: padded[:n*height*width]}, src, height, step, stride)
			for i := range n {
				for y := range height {
					for x := range width {
						if got, want := padded[(i*height+y)*width+x], float32(i*step+y*stride+x); got != want {
							t.Fatalf("width %d: value (%d, %d) of window %d is %v, expected %v", width, y, x, i, got, want)
						}
					}
				}
			}
			if padded[n*height*width] != 0 {
				t.Fatalf("width %d: wrote past the end", width)
			}
		}
	})
}

func TestScaleRows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, cols := range []int{1, 7, 8, 63, 81} {
			x, factors, offset := NewDense(5, cols), []float32{1, 2, 0.5, -1, 0}, make([]float32, cols)
			for i := range x.Data {
				x.Data[i] = float32(math.Sin(float64(i)))
			}
			for j := range offset {
				offset[j] = float32(math.Cos(float64(j)))
			}
			copy(x.Row(0), offset) // minus the offset it is shorter than any length
			want := make([]float64, len(x.Data))
			for i, factor := range factors {
				squares := 0.0
				for j, v := range x.Row(i) {
					d := float64(v)*float64(factor) - float64(offset[j])
					want[i*cols+j] = d
					squares += d * d
				}
				for j := range cols {
					want[i*cols+j] *= 3 / max(math.Sqrt(squares), 1e-6)
				}
			}
			ScaleRows(x, factors, offset, 3)
			for i, v := range x.Data {
				if math.Abs(float64(v)-want[i]) > 2e-6 {
					t.Fatalf("%d columns: value %d is %v, expected %v", cols, i, v, want[i])
				}
			}
		}
	})
}
