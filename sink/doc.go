// Package sink turns a feature block and weights into scores, and scores into
// what the next stage reads:
//
//	score before, block, weights ──Scores──▶ score ──Link──▶ prediction, loss, residual
//
// It is used in every visit, and once more when a stage is final: then the
// scores and residuals become messages.
package sink
