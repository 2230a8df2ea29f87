package accumulate

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// tileRows is how many rows are summed in float32 before the tile is added to
// the float64 sum. Measured on MNIST, p = 1024: a relative error of 6e-8, against
// 5e-7 for one float32 sum over all 60,000 rows.
const tileRows = 4096

// Accumulator sums the blocks of one segment. It keeps its tiles between
// segments; the zero value with BLAS set is ready. Not safe for concurrent use.
type Accumulator struct {
	BLAS *kernel.BLAS

	gram, cross kernel.Dense // tiles
	scaled      kernel.Dense // rows of a block times the roots of their weights
	weighted    kernel.Dense // the same of residuals
	rows        int          // in the tiles
	sum         *Sum
	wantGram    bool
}

// Begin starts a segment of blocks with p columns and residuals with k.
func (a *Accumulator) Begin(p, k int, gram bool) {
	a.sum, a.rows, a.wantGram = &Sum{}, 0, gram
	a.cross.Reshape(p, k)
	if gram {
		a.gram.Reshape(p, p)
	}
}

// Sum is the sum so far of the segment: fields of its own may be added to it.
func (a *Accumulator) Sum() *Sum { return a.sum }

// Add sums one message's block (n × p) and residuals (n × k) with the weights
// (n) of its training rows; other rows have weight 0, and may hold anything.
func (a *Accumulator) Add(block, residual kernel.Dense, weights []float32) {
	if block.Cols != a.cross.Rows || residual.Cols != a.cross.Cols || block.Rows != residual.Rows || len(weights) != block.Rows {
		panic(fmt.Sprintf("accumulate: block %d × %d, residual %d × %d and %d weights into %d × %d",
			block.Rows, block.Cols, residual.Rows, residual.Cols, len(weights), a.cross.Rows, a.cross.Cols))
	}
	fitted, ones := count(weights)
	if fitted == 0 {
		return
	}
	if !ones {
		// √w on both sides of each product
		rootScaled(&a.scaled, block, weights, fitted)
		rootScaled(&a.weighted, residual, weights, fitted)
		block, residual = a.scaled, a.weighted
	}
	a.BLAS.MulT(a.cross, block, residual, a.rows > 0)
	if a.wantGram {
		a.BLAS.Gram(a.gram, block, a.rows > 0)
	}
	if a.rows += block.Rows; a.rows >= tileRows {
		a.flush()
	}
}

// End flushes what is left and hands over the segment's sum.
func (a *Accumulator) End() *Sum {
	a.flush()
	sum := a.sum
	a.sum = nil
	return sum
}

func (a *Accumulator) flush() {
	p, k := a.cross.Rows, a.cross.Cols
	cross := a.sum.Field(schemas.FieldCross, p, k)
	var gram []float64
	if a.wantGram {
		gram = a.sum.Field(schemas.FieldGram, p*(p+1)/2)
	}
	if a.rows == 0 {
		return
	}
	kernel.AddTo(cross, a.cross.Data)
	if a.wantGram {
		kernel.PackLower(gram, a.gram, true)
	}
	a.rows = 0
}

// count tells how many weights are not 0, and whether all are 1.
func count(weights []float32) (fitted int, ones bool) {
	ones = true
	for _, w := range weights {
		if w != 0 {
			fitted++
		}
		ones = ones && w == 1
	}
	return fitted, ones
}

// rootScaled takes the rows of x whose weights are not 0, times the roots of
// their weights. The others are left out, not multiplied by 0: a row that is not
// fitted may have overflown.
func rootScaled(dst *kernel.Dense, x kernel.Dense, weights []float32, fitted int) {
	dst.Reshape(fitted, x.Cols)
	at := 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		root, to := float32(math.Sqrt(float64(w))), dst.Row(at)
		for j, v := range x.Row(i) {
			to[j] = root * v
		}
		at++
	}
}
