// Package worker is the role that makes visits:
//
//	examples, residuals ──ingest, stages, sink, accumulate──▶ statistics, residuals and their seals
//
// The next step of a worker is determined by the plan and the accepted weights: for the due visit, it publishes the sums
// of its partitions. Any worker would publish the same bits, so workers may join, leave, and duplicate work.
package worker
