// Package explain computes what a model's predictions of labelled rows depend on, and where they are wrong:
//
//	model, labelled rows ──Explain──▶ Report: importance of columns, partial dependence, errors by slices, the rows with the largest loss
//
// The same rows, options and model give the same report, on any number of processors.
package explain
