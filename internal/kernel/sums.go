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
	addRowsTo(dst, x, 1, len(x), len(x))
}

// addRowsTo adds the first k values of each of n rows of x, which begin stride values apart, to dst (n×k).
func addRowsTo(dst []float64, x []float32, n, k, stride int) {
	if n == 0 || k == 0 {
		return
	}
	for i := range n {
		to := dst[i*k:][:k]
		for j, v := range x[i*stride:][:k] {
			to[j] += float64(v)
		}
	}
}

// PackLower writes the lower triangle of the p×p matrix x into dst, row after row without gaps: (i, j) goes to
// i·(i+1)/2 + j, and dst has p·(p+1)/2 values.
func PackLower(dst []float32, x Dense) {
	p := x.Rows
	x.check("PackLower", "x", p, p)
	if len(dst) != p*(p+1)/2 {
		panic(fmt.Sprintf("kernel: PackLower: dst has %d values, want %d", len(dst), p*(p+1)/2))
	}
	for i := range p {
		copy(dst, x.Row(i)[:i+1])
		dst = dst[i+1:]
	}
}

// AddEach adds lists, each as long as dst, to dst in order; without add, the first list overwrites dst. It processes
// blocks of all lists, so that a block of dst stays in the first-level cache until it is complete.
func AddEach(dst []float64, add bool, lists ...[]float32) {
	for _, x := range lists {
		if len(x) != len(dst) {
			panic(fmt.Sprintf("kernel: AddEach: a list has %d values, dst %d", len(x), len(dst)))
		}
	}
	for from := 0; from < len(dst); from += addedAtOnce {
		to := min(from+addedAtOnce, len(dst))
		rest := lists
		if !add && len(lists) > 0 {
			vek.FromFloat32_Into(dst[from:to], lists[0][from:to])
			rest = lists[1:]
		}
		for _, x := range rest {
			addTo(dst[from:to], x[from:to])
		}
	}
}

// addedAtOnce is the block size of AddEach in values: 8 KB of dst.
const addedAtOnce = 1024
