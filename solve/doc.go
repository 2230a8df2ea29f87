// Package solve turns statistics into weights, and decides whether another visit is worth its cost:
//
//	reduced sums of a visit, the weights it was made with ──Fit──▶ the next weights, or the final ones
//	reduced sums of the survey ──Survey──▶ centre, scale and principal directions of the features
//	prepared rows of the sample ──Spread──▶ the scale of the kernels
//
// A Fit is a fold over published records: it holds nothing that they do not determine, so another solver that takes over
// continues with the same bits. Sums are float64. Errors in the data have types of their own.
package solve
