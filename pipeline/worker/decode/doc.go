// Package decode decodes the rows of examples messages for a run:
//
//	examples message ──▶ features, weights, splits, targets
//
// Everything is determined by the plan, the message and its position on the topic. So the survey, each visit, and a
// reproduction of the run see the same rows.
package decode
