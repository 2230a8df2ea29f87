package kafkalog

import "github.com/segmentio/kafka-go"

// Partitioner returns a function from a key to one of the partitions, the default partitioner of Kafka's Java client:
// topics with the same keys and numbers of partitions are co-partitioned.
func Partitioner(partitions int) func(key []byte) int {
	all := make([]int, partitions)
	for p := range all {
		all[p] = p
	}
	return func(key []byte) int { return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, all...) }
}
