// Package visit makes a visit to a stage, a segment at a time:
//
//	load ──decode, stages──▶ blocks and scores ──accumulate──▶ sums
//	                                           ──sink──▶ residuals, once the stage is final
//
// A [Visit] is a value that its goroutines share, each with a [Processor] of its own. None of them knows the worker,
// its partitions or the log: what they need is in the [Run].
package visit
