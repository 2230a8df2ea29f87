// Package partition is what a worker holds of one partition of the examples: where its segments are, which of their rows are
// in memory, and how far the partition's visits and scores are.
//
//	span ──New──▶ State ──segments──▶ messages as read ──Keep──▶ batches, with scores and blocks
//
// Everything here could be read or computed again. Memory is taken from a [Budget], and a partition that moves to another
// worker gives it back.
package partition
