// Package rowsums computes the sums of an update on sparse rows: for a columns stage the gradient, in some visits the
// curvature, and in the first visit a bound of it; for a counted stage the counts. Workers compute them in visits. If the
// rows are smaller than these sums, workers send the rows, and the solver sums them in the order in which visits would:
//
//	batches of a segment ──Write──▶ record of the kind rows ──Read──▶ segments ──Sum──▶ sums
//
// So the weights have the same bits in both cases.
package rowsums
