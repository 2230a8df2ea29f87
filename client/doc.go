// Package client follows the versions of a pipeline and holds the newest model:
//
//	plans, versions ──Follow──▶ Follower ──Model──▶ *model.Model ──Predict──▶ label and probabilities
//
// A service follows a pipeline, and predicts with what [Follower.Model] returns at that moment. A new version replaces
// it at once, and no call waits for it: see [Follow].
package client
