// Package choice chooses stages by the holdout loss of models with them:
//
//	job without stages, or whose stop rule ends its stages ──Resolve──▶ job with the stages of its run
//
// The models are those of a search, on topics of its own, which are deleted afterwards.
package choice
