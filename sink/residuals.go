package sink

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Residuals turns predictions (n × k) into y − prediction in place, where y is the indicator of the row's class. Rows
// without a label become 0.
func Residuals(prediction kernel.Dense, classes []int32) {
	for i, class := range classes {
		row := prediction.Row(i)
		if class == schemas.Unlabelled {
			clear(row)
			continue
		}
		for c := range row {
			row[c] = -row[c]
		}
		row[class]++
	}
}

// Targets writes the indicators of the classes (n × k) into dst. Rows without a label become 0.
func Targets(dst kernel.Dense, classes []int32) {
	clear(dst.Data)
	for i, class := range classes {
		if class != schemas.Unlabelled {
			dst.Row(i)[class] = 1
		}
	}
}

// Cubic writes G(z) = (z, z², z³), elementwise, into dst (n × 3k): the basis in which Algorithm 2 learns the link. dst is
// reshaped.
func Cubic(dst *kernel.Dense, z kernel.Dense) {
	k := z.Cols
	dst.Reshape(z.Rows, 3*k)
	for i := range z.Rows {
		from, to := z.Row(i), dst.Row(i)
		for c, v := range from {
			to[c], to[k+c], to[2*k+c] = v, v*v, v*v*v
		}
	}
}
