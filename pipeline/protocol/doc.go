// Package protocol defines how the roles of a pipeline cooperate: its topics, how messages are read and written there, and how the
// state of a run is derived from them.
//
//	plans topic ──Ledger──▶ runs, their ends, sealed sources
//	weights topic ──Chain──▶ accepted records ──Due──▶ the visit that comes next
//
// The roles share no memory: they meet on topics. Ledger and Chain are folds over messages, so every process that reads the same
// topics derives the same state. Client is the part of one process in the protocol: the meaning of a message
// or of an order of messages is defined here, and nowhere else. Package event reports events to a recorder.
package protocol
