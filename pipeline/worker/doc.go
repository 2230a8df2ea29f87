// Package worker is the role that makes visits:
//
//	examples, residuals ──ingest, stages, sink, accumulate──▶ statistics, residuals and their seals
//
// What a worker does next follows from the plan and the accepted weights alone: for the visit that is due, it publishes the sums
// of the partitions that it owns. Any worker would publish the same bits, so workers may come, go, and do the same work twice.
package worker
