// Package counting decides which messages of the examples topic a run uses.
//
// New makes a Counting of a plan: the sources, producers and followed topics
// that the run wants. Its Replay sees the messages of one span in their order and
// turns each into a reason to pass over it, or none. So a worker counts each
// sequence of a source once, however often ingest wrote it.
package counting
