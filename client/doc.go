// Package client follows the versions of a pipeline and holds the newest model:
//
//	plans, versions ──Follow──▶ Follower ──Model──▶ *model.Model ──Predict──▶ label and probabilities
//
// A service follows a pipeline and predicts with the current [Follower.Model]. A new version replaces the model between calls; no
// call waits for it: see [Follow].
package client
