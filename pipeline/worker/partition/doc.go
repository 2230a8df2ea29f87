// Package partition is a worker's state of one examples partition: its segments, which of their rows are in memory, and
// the progress of the partition's visits and scores.
//
//	span ──New──▶ State ──segments──▶ messages as read ──Keep──▶ batches, with scores and blocks
//
// All of the data could be read or computed again. Its memory is that of a [Cache], and returned when the partition
// moves to another worker.
package partition
