package sink

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/tree"
)

// CalibratedPass is the result of one pass of Algorithm 2.
type CalibratedPass struct {
	// W (p × k) is the step of the algorithm's lines 3 and 4.
	W kernel.Weights
	// Calibration (k for each power of the basis × k) is the calibration of its line 5. It is zero until the second visit of the pass
	// has fitted it.
	Calibration kernel.Dense
}

// Fitted is the weights of a stage at some visit. At most one of W and Passes is set; none is set before the first weights.
type Fitted struct {
	// W (p × k) is the weights of a stage with a known link.
	W kernel.Weights
	// Region is the region to which Algorithm 2 clips predictions.
	Region link.Region
	// Passes are the passes of a stage whose link is learnt, in order.
	Passes []CalibratedPass
	// Basis is the powers of predictions that the calibrations multiply.
	Basis link.Basis
}

// Workspace is memory that Shown uses between calls. The zero value is ready. It is not safe for concurrent use.
type Workspace struct {
	basis kernel.Dense
	link  link.Scratch
}

// Scores writes the score after the stage into dst (n × k): the score before it (n × k) plus W times the block (n × p),
// or plus the sum of these products over all passes. The score is never clipped. It returns the rows whose scores
// overflow, which keep the score before the stage.
func (f *Fitted) Scores(blas *kernel.BLAS, dst, before, block kernel.Dense) (overflowed []int) {
	mustMatch("columns of the scores", dst.Cols, before.Cols)
	copy(dst.Data, before.Data)
	if f.W.Rows > 0 {
		blas.MulAdd(dst, block, f.W)
	}
	for _, pass := range f.Passes {
		blas.MulAdd(dst, block, pass.W)
	}
	return TakeBack(dst, before)
}

// ScoresSparse is Scores for a block of sparse rows. It panics if the link of the stage is learnt.
func (f *Fitted) ScoresSparse(dst, before kernel.Dense, block kernel.Sparse) (overflowed []int) {
	if len(f.Passes) > 0 {
		panic("sink: sparse rows and a link that is learnt")
	}
	mustMatch("columns of the scores", dst.Cols, before.Cols)
	copy(dst.Data, before.Data)
	if f.W.Rows > 0 {
		kernel.MulAddSparse(dst, block, f.W.Dense)
	}
	return TakeBack(dst, before)
}

// ScoresOfLeaves is Scores for the leaves of rows, in trees with room for each leaves. If W has a row after those of
// all leaves, it is the intercept. It panics if the link of the stage is learnt.
func (f *Fitted) ScoresOfLeaves(dst, before kernel.Dense, leaves tree.Leaves, each int) (overflowed []int) {
	if len(f.Passes) > 0 {
		panic("sink: leaves of trees and a link that is learnt")
	}
	mustMatch("columns of the scores", dst.Cols, before.Cols)
	copy(dst.Data, before.Data)
	if f.W.Rows > 0 {
		n, k := leaves.Trees*each, dst.Cols
		kernel.AddLeafRows(dst.Data, leaves.Data, f.W.Data[:n*k], leaves.Rows, each, k)
		if f.W.Rows > n {
			last := f.W.Data[n*k:]
			for i := range dst.Data {
				dst.Data[i] += last[i%k]
			}
		}
	}
	return TakeBack(dst, before)
}

// Shown writes into dst (n × k) the score behind the stage's predictions. If the link is known, that is the score after
// the stage. If it is learnt, it is the score before the stage (n × k), ŷ, taken through all passes of Algorithm 2. If
// the last pass has no calibration yet, it is ỹ = ŷ + W x of that pass, which the calibration is fitted to. It returns
// the rows whose scores overflow; these restart from the score before the stage.
func (f *Fitted) Shown(blas *kernel.BLAS, w *Workspace, dst, before, block kernel.Dense) (overflowed []int) {
	if len(f.Passes) == 0 {
		return f.Scores(blas, dst, before, block)
	}
	copy(dst.Data, before.Data)
	for _, pass := range f.Passes {
		blas.MulAdd(dst, block, pass.W)
		overflowed = append(overflowed, TakeBack(dst, before)...)
		if pass.Calibration.Rows == 0 {
			break
		}
		f.Basis.Expand(&w.basis, dst)
		blas.Mul(dst, w.basis, pass.Calibration, false)
		f.Region.Project(dst, &w.link)
	}
	return overflowed
}

func mustMatch(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("sink: %s are %d, expected %d", what, got, want))
	}
}

// Vote adds the predictions of a member (n × k) to the votes (n × k), the sum of the predictions of the members before
// it. Members vote in order.
func Vote(votes, prediction kernel.Dense) {
	mustMatch("columns of the votes", votes.Cols, prediction.Cols)
	for i, v := range prediction.Data {
		votes.Data[i] += v
	}
}

// Average writes the mean prediction of the members into dst (n × k), given their votes (n × k).
func Average(dst, votes kernel.Dense, members int) {
	mustMatch("columns of the average", dst.Cols, votes.Cols)
	for i, v := range votes.Data {
		dst.Data[i] = v / float32(members)
	}
}

// maxScore bounds the length of a row of scores: the cubes that a calibration is fitted to fit float32, and squares
// have room for the sum over rows.
const maxScore = 1 << 40

// TakeBack resets the scores (n × k) of rows that overflow to those before the stage (n × k), as if the stage had added
// nothing, and returns the indices of these rows.
func TakeBack(scores, before kernel.Dense) (overflowed []int) {
	for i := range scores.Rows {
		if row := scores.Row(i); len(row) > 0 && !(kernel.SquaredLength(row) <= maxScore*maxScore) {
			copy(row, before.Row(i))
			overflowed = append(overflowed, i)
		}
	}
	return overflowed
}
