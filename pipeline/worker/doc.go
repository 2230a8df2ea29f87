// Package worker is the role that makes visits:
//
//	examples, residuals ──ingest, stages, sink, accumulate──▶ statistics, residuals and their seals
//
// What a worker does next follows from the plan and the accepted weights alone: it publishes the sums of the partitions that
// it owns for the visit that is due. It publishes nothing that another worker could not publish with the same bits, so
// workers may come, go, and do the same work twice.
package worker
