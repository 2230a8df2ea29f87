// Package run is what worker and solver share: the topics of a pipeline, how messages are read and written there, and how a
// run's state follows from them.
//
//	plans topic ──Ledger──▶ runs, their ends, sealed sources
//	weights topic ──Chain──▶ accepted records ──Due──▶ the visit that comes next
//	what happens ──Recorder──▶ progress bar, logs, metrics, tests
//
// The roles share no memory: they meet on topics. Ledger and Chain are folds over these, so every process that reads them
// comes to the same state.
package run
