// Package prepare turns raw rows into the inputs of feature maps, and into the codes that trees compare:
//
//	raw rows ──Preparation──▶ inputs (n × m), codes (n × c)
//
// The survey provides the data behind a [Preparation]: moments, or knots of ranks, of dense rows; factors of sparse
// ones; bins of columns. So inputs are a function of the plan, the survey and the row.
package prepare
