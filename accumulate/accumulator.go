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
	BLAS   *kernel.BLAS
	Spares *Spares // what Gram matrices are summed in; nil: in new memory

	cross    kernel.Cross // tiles
	gram     kernel.Dense
	scaled   kernel.Dense // rows of a block times the roots of their weights
	rows     int          // in the tile of cross
	gramRows int          // in that of gram
	sum      *Sum
	wantGram bool
}

// Begin starts a segment of blocks with p columns and residuals with k, none if k is 0.
func (a *Accumulator) Begin(p, k int, gram bool) {
	a.sum, a.rows, a.gramRows, a.wantGram = &Sum{}, 0, 0, gram
	a.cross.Begin(p, k)
	if gram {
		a.gram.Reshape(p, p)
	}
}

// Sum is the sum so far of the segment: fields of its own may be added to it.
func (a *Accumulator) Sum() *Sum { return a.sum }

// Add sums the block (n × p) and residuals (n × k) of some rows with their
// weights (n), which are 0 of rows that are not fitted: those may hold anything.
func (a *Accumulator) Add(block, residual kernel.Dense, weights []float32) {
	if p, k := a.cross.Shape(); block.Cols != p || residual.Cols != k || block.Rows != residual.Rows || len(weights) != block.Rows {
		panic(fmt.Sprintf("accumulate: block %d × %d, residual %d × %d and %d weights into %d × %d",
			block.Rows, block.Cols, residual.Rows, residual.Cols, len(weights), p, k))
	}
	a.cross.Add(a.BLAS, block, residual, weights)
	if a.rows += block.Rows; a.rows >= tileRows {
		a.flushCross()
	}
}

// AddGram sums the Gram matrix of one message's block (n × p) with weights (n)
// as those of Add.
func (a *Accumulator) AddGram(block kernel.Dense, weights []float32) {
	if p, _ := a.cross.Shape(); block.Cols != p || len(weights) != block.Rows {
		panic(fmt.Sprintf("accumulate: block %d × %d and %d weights into the Gram matrix of %d columns", block.Rows, block.Cols, len(weights), p))
	}
	fitted, ones := count(weights)
	if fitted == 0 {
		return
	}
	if !ones { // √w on both sides of the product
		rootScaled(&a.scaled, block, weights, fitted)
		block = a.scaled
	}
	a.BLAS.Gram(a.gram, block, a.gramRows > 0)
	if a.gramRows += block.Rows; a.gramRows >= tileRows {
		a.flushGram()
	}
}

// AddTrace sums what λ needs of a block whose Gram matrix is not summed: the
// squares of its first so many columns.
func (a *Accumulator) AddTrace(block kernel.Dense, columns int, weights []float32) {
	trace := 0.0
	for i, w := range weights {
		if w != 0 {
			trace += float64(w) * float64(kernel.SquaredLength(block.Row(i)[:columns]))
		}
	}
	a.sum.Field(schemas.FieldTrace, 1)[0] += trace
}

// End flushes what is left and hands over the segment's sum. Of a Gram matrix of
// no rows there is no field.
func (a *Accumulator) End() *Sum {
	a.flushCross()
	if a.wantGram {
		a.flushGram()
	}
	sum := a.sum
	a.sum = nil
	return sum
}

func (a *Accumulator) flushCross() {
	p, k := a.cross.Shape()
	if k == 0 {
		return
	}
	cross := a.sum.Field(schemas.FieldCross, p, k)
	if a.rows > 0 {
		a.cross.AddTo(cross)
		a.cross.Begin(p, k)
		a.rows = 0
	}
}

func (a *Accumulator) flushGram() {
	if a.gramRows > 0 { // nothing is worth megabytes of zeros
		p, _ := a.cross.Shape()
		gram, begun := a.sum.Tensors().Find(schemas.FieldGram)
		if !begun {
			gram = schemas.Vector(schemas.FieldGram, a.Spares.Take(p*(p+1)/2))
			a.sum.fields = append(a.sum.fields, gram)
		}
		kernel.PackLower(gram.Data, a.gram, begun) // the first tile is written, not added
		a.gramRows = 0
	}
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
