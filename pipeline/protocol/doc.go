// Package protocol defines the protocol between the roles of a pipeline: its topics, how messages are read and written
// there, and how the state of a run is derived from them.
//
//	plans topic ──Ledger──▶ runs, their ends, sealed sources
//	weights topic ──Chain──▶ accepted records ──Due──▶ the visit that comes next
//	examples topic ──Counting──▶ the messages that count; ──ReadTopicProgress──▶ the read position in a followed topic
//	state topic ──ReadStateWindow──▶ the window of a chain
//
// The roles share no memory: they communicate through topics. Ledger and Chain are folds over messages, so every process
// that reads the same topics derives the same state. Client reads and writes the topics for one process. The meaning of
// messages and of their order is defined only here. Package event reports events to a recorder.
package protocol
