// Package model turns the weights of a finished version into predictions:
//
//	manifest, weights ──New──▶ Model ──Predictor──▶ labels and probabilities
//	file ──Read──▶ Model ──WriteTo, Exports──▶ file
//
// A Model is all that predictions need, without a log. The workers that train
// the next stage compute their blocks and scores with the same code: see [Stage].
package model
