// Package solve turns statistics into weights, and decides whether another visit is worth its cost:
//
//	reduced sums of a visit, the weights it was made with ──Fit──▶ the next weights, or the final ones
//
// Before them, sums of the survey become the preparation of features and targets:
//
//	reduced sums of the survey ──PrepareDense, PrepareSparse──▶ centre, scale and principal directions of features, or factors of columns
//	their sums of the targets ──PrepareTargets──▶ centre and scale of what is predicted
//	prepared rows of the sample ──Spread──▶ the scale of the kernels
//
// Package accumulate computes sums over rows. Only Spread takes rows: it multiplies them in float64, as only a solver does.
//
// A Fit is a fold over published records, which determine all of its state, so a solver that takes over continues with
// the same bits. Sums are float64. Errors in the data have their own types.
package solve
