package kafkalog

import "github.com/segmentio/kafka-go"

// Partitioner returns which of so many partitions a key belongs to, as Kafka's own clients for Java choose it: so topics with the same
// keys and numbers of partitions have them in the same partitions.
func Partitioner(partitions int) func(key []byte) int {
	all := make([]int, partitions)
	for p := range all {
		all[p] = p
	}
	return func(key []byte) int { return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, all...) }
}
