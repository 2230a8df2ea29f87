package kernel

import (
	"math"
	"testing"
)

func TestCopyWindows(t *testing.T) {
	src := make([]float32, 60)
	for i := range src {
		src[i] = float32(i)
	}
	const n, height, width, step, stride = 4, 3, 2, 3, 20
	dst := NewDense(n, height*width)
	CopyWindows(dst, src, height, step, stride)
	for i, got := range dst.Data {
		window, y, x := i/(height*width), i/width%height, i%width
		if want := float32(window*step + y*stride + x); got != want {
			t.Fatalf("value (%d, %d) of window %d is %v, expected %v", y, x, window, got, want)
		}
	}
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
