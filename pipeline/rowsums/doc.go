// Package rowsums sums what an update on sparse rows needs of them: of a stage of columns the gradient, in some visits the curvature, and
// in the first what bounds it; of a counted stage the counts. Workers do so in visits. If rows are fewer than such sums, workers send the
// rows, and the solver sums them in the order in which visits would:
//
//	batches of a segment ──Write──▶ record of the kind rows ──Read──▶ segments ──Sum──▶ sums
//
// So the weights have the same bits either way.
package rowsums
