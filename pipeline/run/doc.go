// Package run is what workers and solvers share: the topics of a pipeline, how messages are read and written there, and how the
// state of a run follows from them.
//
//	plans topic ──Ledger──▶ runs, their ends, sealed sources
//	weights topic ──Chain──▶ accepted records ──Due──▶ the visit that comes next
//
// The roles share no memory: they meet on topics. Ledger and Chain are folds over messages, so every process that reads the same
// topics comes to the same state. Package event tells a recorder what happens.
package run
