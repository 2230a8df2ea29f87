// Package solve turns statistics into weights, and decides whether another visit is worth its cost:
//
//	reduced sums of a visit, the weights it was made with ──Fit──▶ the next weights, or the final ones
//
// A Fit is a fold over published records, which determine all of its state, so a solver that takes over continues with
// the same bits. Sums are float64. Errors in the data have their own types.
package solve
