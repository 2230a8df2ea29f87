// Package decode reads the rows of examples messages as a run sees them:
//
//	examples message ──▶ features, weights, splits, and what is to be predicted
//
// All follows from the plan, the message and its place on the topic. So the survey, each visit, and a run that is made
// again see the same rows.
package decode
