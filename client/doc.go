// Package client turns the versions that a pipeline publishes into a model that is always the newest:
//
//	plans, versions ──Follow──▶ Follower ──Model──▶ *model.Model ──Predict──▶ label and probabilities
//
// A service follows a pipeline, and predicts with what [Follower.Model] returns at that moment. A new version replaces it at once, and nobody
// waits for it: see [Follow].
package client
