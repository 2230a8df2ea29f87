// Package score predicts for a topic: messages of examples → predictions, by the newest version of a pipeline.
//
// Predictions are written to the partition with the same number, in the order of the offsets. The topic
// of the predictions alone holds the position: see [prediction.Scored]. A process that ends, or loses its
// partitions, holds no state that others need, and duplicate predictions of two processes for the same rows count
// once. [Read] skips the duplicates.
package score
