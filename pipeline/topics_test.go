package pipeline

import (
	"testing"
)

// An examples topic keeps its number of partitions if the configuration changes later, and the residuals topic has as many.
func TestTopicKeepsItsPartitions(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	job.Examples.Partitions = 6
	first, _ := train(t, log, job)
	job.Examples.Partitions = 2
	second, _ := train(t, log, job)
	if first.WeightsDigest != second.WeightsDigest || second.Rows != 400 {
		t.Errorf("digest %s with 6 partitions, %s and %d rows with 2 in the configuration; expected the same digest and 400 rows", first.WeightsDigest, second.WeightsDigest, second.Rows)
	}
}
