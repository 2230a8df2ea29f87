// Package tree grows regression trees on the residuals of a sample, and finds the leaves of rows. A block of trees has one indicator
// column for each leaf:
//
//	sample of raw rows ──EdgesOf──▶ edges of bins ──CodeOf──▶ codes, a byte for each value
//	codes and residuals of a sample ──Grow──▶ forest
//	codes of rows ──Finder──▶ leaves
//
// Trees are extremely randomised (Geurts, Ernst and Wehenkel 2006, Machine Learning 63), grown best-first, with one
// squared error over all outputs. The weights of all leaves are fitted elsewhere, to all rows. No result depends on the
// number of cores. Products are rounded before they are added, so that no compiler fuses them: the bits are the same on
// any machine.
package tree
