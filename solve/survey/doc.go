// Package survey turns the sums of the survey's visit into the preparation of features and targets:
//
//	reduced sums of the survey ──Dense, Sparse──▶ centre, scale and principal directions of the features, or factors of columns
//	their sums of the targets ──Targets──▶ centre and scale of what is predicted
//	prepared rows of the sample ──Spread──▶ the scale of the kernels
package survey
