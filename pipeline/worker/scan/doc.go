// Package scan processes the segments of partitions on all cores, with results in an order that does not depend on timing:
//
//	examples, residuals ──read──▶ loads ──process──▶ outcomes ──collect──▶ writes
//
// It reads the messages of a run, and the residuals of a published stage. The caller defines the computation for a
// segment.
package scan
