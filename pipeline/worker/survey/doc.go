// Package survey executes the survey of a run, segment by segment:
//
//	load ──decode──▶ rows ──accumulate──▶ labels, moments and a sample of rows
//	                      └─────────────▶ the quarantine topic
//
// A [Survey] is shared by its goroutines, each with a processor of its own. The findings in the segments of a partition
// are merged to the [Findings] that the worker publishes.
package survey
