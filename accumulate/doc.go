// Package accumulate turns feature blocks into statistics: sums over examples
// that merge, whatever they were split into.
//
//	block, residual, weights ──Accumulator──▶ Sum ──Merge──▶ Sum ──Reduce──▶ Sum
//
// A Sum is an element of a commutative monoid that carries the spans it has
// seen, so that nothing is counted twice. Because floating-point addition does
// not associate, the order of merging is fixed: tiles of whole messages within
// a segment, segments in order within a partition, partitions in order within
// groups of 32, then the groups in order.
package accumulate
