package accumulate

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Exact sums the moments of a segment in float64 from the first row on. The small systems of a calibration need this: they
// are nearly singular where classes overlap little. The zero value with BLAS set is ready. It is not safe for concurrent
// use.
type Exact struct {
	BLAS    *kernel.BLAS
	moments kernel.Moments
}

// Begin starts a segment of blocks with p columns and targets with k columns.
func (e *Exact) Begin(p, k int) { e.moments.Begin(p, k) }

// Add adds one message's block (n × p) and targets (n × k) with n weights. Rows that are not fitted have weight 0.
func (e *Exact) Add(block, target kernel.Dense, weights []float32) {
	e.moments.Add(e.BLAS, block, target, weights)
}

// End writes the fields gram (packed lower triangle) and cross (p × k) into sum.
func (e *Exact) End(sum *Sum) {
	p, k := e.moments.Size, e.moments.Targets
	copy(sum.Field(statistics.FieldCross, p, k), e.moments.Cross)
	gram, at := sum.Field(statistics.FieldGram, p*(p+1)/2), 0
	for i := range p {
		at += copy(gram[at:], e.moments.Gram[i*p:i*p+i+1])
	}
}

// AddRounded adds weight times x, rounded to single precision, to dst.
func AddRounded(dst []float64, weight float64, x []float64) {
	for i, v := range x {
		dst[i] += weight * float64(float32(v))
	}
}
