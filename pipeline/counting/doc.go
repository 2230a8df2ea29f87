// Package counting decides which messages of the examples topic a run uses.
//
// New returns a Counting of a plan: the sources, producers and followed topics of the run. Its Replay receives the
// messages of one span in order and returns for each the reason to pass over it, or none. So a worker counts each sequence
// number of a source once, however often ingest wrote it.
package counting
