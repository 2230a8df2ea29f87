// Package statistics defines the messages from workers to the solver: sums over the rows of a partition for a visit, Gram matrices,
// the survey, samples and seals, as records of tensors with names.
//
//	Visit, Survey, Seal, … ──Record──▶ wire.Record ──VisitOf, SealOf, …──▶ Visit, Survey, Seal, …
package statistics
