// Package solve turns statistics into weights, and says whether another visit
// is worth it:
//
//	reduced sums of a visit, the weights it was made with ──Fit──▶ the next weights, or the final ones
//	reduced sums of the survey ──Survey──▶ the preparation of all blocks
//
// A Fit is a fold over published records: it holds nothing that they do not
// determine, so a solver that takes over goes on with the same bits. Numbers
// are float64; trouble with them is a typed error.
package solve
