// Package visit computes what a visit to partitions yields, segment by segment: of the survey of a run, and of each visit to a stage.
//
//	span ──Scan──▶ loads ──RowReader──▶ rows ──stages──▶ blocks and scores ──accumulate──▶ sums
//	                                     │                                 ──sink──▶ residuals, once the stage is final
//	                                     └──Survey──▶ labels, moments, a sample of rows; unusable messages
//
// A [Scan] processes the segments of partitions on all cores, and collects outcomes in an order that does not depend on timing.
// Rows are determined by the plan, the message and its position on the topic. A [Survey] and a [Visit] are shared by their
// goroutines, each with a processor of its own. The package does not depend on the worker's ownership or publications.
package visit
