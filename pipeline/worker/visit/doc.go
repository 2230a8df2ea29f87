// Package visit executes a visit to a stage, segment by segment:
//
//	load ──decode, stages──▶ blocks and scores ──accumulate──▶ sums
//	                                           ──sink──▶ residuals, once the stage is final
//
// A [Visit] is shared by its goroutines, each with a [Processor] of its own. The package does not depend on the worker,
// its partitions or the log: its inputs are in [Run].
package visit
