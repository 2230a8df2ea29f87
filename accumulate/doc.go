// Package accumulate turns feature blocks into statistics: sums over examples, which can be split in any way and merged.
//
//	block, residual, weights ──Accumulator──▶ Sum ──Merge──▶ Sum ──Reduction──▶ Sum
//
// Sums form a commutative monoid. A Sum carries the spans that it covers, so that nothing is counted twice.
// Floating-point addition does not associate, so the order of merging is fixed: tiles of whole messages within a segment,
// segments in order within a partition, partitions in order within groups of 32, then the groups in order.
package accumulate
