// Package linear has the linear algebra of the fits: matrices like the curvature of the objective, and sums on all cores.
//
//	a Gram matrix, or its diagonal, λ ──NewPreconditioner, NewBlockMetric, NewDiagonal──▶ Metric ──SolveTo──▶ steps
//
// The bits do not depend on the number of cores.
package linear
