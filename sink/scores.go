package sink

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Link of a calibrated stage's chain: one pass of Algorithm 2.
type ChainLink struct {
	W           kernel.Weights // p × k: its lines 3 and 4, the step
	Calibration kernel.Dense   // 3k × k: its line 5; zero while it is being fitted
}

// Fitted is what a stage's weights are at some visit. Exactly one of W and
// Chain is used, as the stage's link says.
type Fitted struct {
	Link  schemas.Link
	W     kernel.Weights // p × k; zero: no weights yet
	Chain []ChainLink
}

// Workspace is what Scores needs between messages; the zero value is ready.
type Workspace struct {
	step, cubic kernel.Dense
	scratch     []float32
}

// Scratch is k numbers for the projections.
func (w *Workspace) Scratch(k int) []float32 {
	if cap(w.scratch) < k {
		w.scratch = make([]float32, k)
	}
	return w.scratch[:k]
}

// Scores writes into dst (n × k) the score after the stage: the one before it
// plus Wx, for a calibrated stage plus ΣWx, never clipped.
func (f *Fitted) Scores(blas *kernel.BLAS, dst, before, block kernel.Dense) {
	mustMatch("columns of the scores", dst.Cols, before.Cols)
	copy(dst.Data, before.Data)
	if f.Link != schemas.LinkCalibrated {
		if f.W.Rows > 0 {
			blas.MulAdd(dst, block, f.W)
		}
		return
	}
	for _, link := range f.Chain {
		blas.MulAdd(dst, block, link.W)
	}
}

// Shown writes into dst (n × k) what a calibrated stage predicts: Algorithm 2
// from ŷ = the score before it through its chain. If the last link has no
// calibration yet, dst is ỹ = ŷ + Wx, of which the calibration is fitted.
func (f *Fitted) Shown(blas *kernel.BLAS, w *Workspace, dst, before, block kernel.Dense) {
	copy(dst.Data, before.Data)
	for _, link := range f.Chain {
		blas.MulAdd(dst, block, link.W)
		if link.Calibration.Rows == 0 {
			return
		}
		Cubic(&w.cubic, dst)
		blas.Mul(dst, w.cubic, link.Calibration, false)
		kernel.SimplexRows(dst, w.Scratch(dst.Cols))
	}
}
