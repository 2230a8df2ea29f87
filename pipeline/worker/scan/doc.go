// Package scan goes through the segments of partitions on all cores, in an order that does not depend on how fast each is:
//
//	examples, residuals ──read──▶ loads ──process──▶ outcomes ──collect──▶ writes
//
// It reads the messages of a run, and the residuals that a stage has published. The caller decides what to compute from a segment.
package scan
