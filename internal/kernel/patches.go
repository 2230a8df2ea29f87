package kernel

import (
	"fmt"
	"math"

	"github.com/viterin/vek/vek32"
)

// CopyWindows copies windows of src into the rows of dst. A window has height rows, which together fill a row of dst.
// The rows of a window begin stride values apart, and windows begin step values apart.
func CopyWindows(dst Dense, src []float32, height, step, stride int) {
	if dst.Rows == 0 || dst.Cols == 0 {
		return
	}
	width := dst.Cols / height
	last := (dst.Rows-1)*step + (height-1)*stride + width
	if width*height != dst.Cols || last > len(src) {
		panic(fmt.Sprintf("kernel: CopyWindows: %d windows of %d × %d end at %d of %d values", dst.Rows, height, width, last, len(src)))
	}
	for i := range dst.Rows {
		for j := range height {
			copy(dst.Row(i)[j*width:(j+1)*width], src[i*step+j*stride:])
		}
	}
}

// ScaleRows replaces each row of x by row·factors[i] − offset, and then scales it to the given length. A row shorter
// than 1e-6 is divided by 1e-6 instead of its length. factors has x.Rows values, offset x.Cols.
func ScaleRows(x Dense, factors, offset []float32, length float32) {
	x.check("ScaleRows", "x", len(factors), len(offset))
	const least = 1e-6
	for i, factor := range factors {
		row := x.Row(i)
		vek32.MulNumber_Inplace(row, factor)
		vek32.Sub_Inplace(row, offset)
		norm := float32(math.Sqrt(float64(vek32.Dot(row, row))))
		vek32.MulNumber_Inplace(row, length/max(norm, least))
	}
}
