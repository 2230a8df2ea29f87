// Package survey makes the survey of a run, a segment at a time:
//
//	load ──decode──▶ rows ──accumulate──▶ labels, moments and a sample of rows
//	                      └─────────────▶ the quarantine topic
//
// A [Survey] is a value that its goroutines share, each with a processor of its own. What they find in the segments of a partition
// is merged to the [Findings] that the worker publishes.
package survey
