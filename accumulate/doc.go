// Package accumulate turns feature blocks into statistics: sums over examples, which can be split in any way and merged.
//
//	block, residual, weights ──Accumulator──▶ Sum ──Merge──▶ Sum
//
// Sums form a commutative monoid. A Sum carries the spans that it covers, so that nothing is counted twice.
// Floating-point addition does not associate, so the order of merging is fixed: tiles of whole messages within a segment,
// the segments of all partitions of a share in order, then the shares in order.
package accumulate
