package kernel

import (
	"fmt"

	"github.com/viterin/vek"
)

// Add adds x to dst, which must have the same length.
func Add(dst, x []float64) {
	if len(dst) != len(x) {
		panic(fmt.Sprintf("kernel: Add: x has %d values, dst %d", len(x), len(dst)))
	}
	if len(dst) >= 16 {
		vek.Add_Inplace(dst, x)
		return
	}
	for i, v := range x { // faster than a call
		dst[i] += v
	}
}

// addTo adds x to dst, which must have the same length.
func addTo(dst []float64, x []float32) {
	if len(dst) != len(x) {
		panic(fmt.Sprintf("kernel: addTo: x has %d values, dst %d", len(x), len(dst)))
	}
	for i, v := range x {
		dst[i] += float64(v)
	}
}

// AddLower adds the lower triangle of the p×p matrix x to dst, row after row without gaps: (i, j) goes to i·(i+1)/2 + j, and dst
// has p·(p+1)/2 values.
func AddLower(dst []float64, x Dense) {
	p := x.Rows
	x.check("AddLower", "x", p, p)
	if len(dst) != p*(p+1)/2 {
		panic(fmt.Sprintf("kernel: AddLower: dst has %d values, want %d", len(dst), p*(p+1)/2))
	}
	for i := range p {
		addTo(dst[:i+1], x.Row(i)[:i+1])
		dst = dst[i+1:]
	}
}
