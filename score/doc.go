// Package score is what predicts for a topic: messages of examples → predictions, by the newest version of a pipeline.
//
// Each message of the topic has predictions on the partition of the same number, in the order of the offsets. The topic of the predictions is the only
// truth of how far that is: see [schemas.Scored]. A process that ends, or loses its partitions, leaves nothing behind that others would need,
// and what two processes predict for the same rows counts once. [Read] returns what counts.
package score
