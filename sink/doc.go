// Package sink turns a feature block and weights into scores, and writes them with the residuals that the next stage is fitted to:
//
//	score before, block, weights ──Scores──▶ score ──internal/link──▶ prediction, residual
//	scores, residuals ──Messages──▶ residuals messages
//
// Scores and residuals are computed in every visit. They are published once, when a stage is final.
package sink
