package cluster

import "fmt"

// ReplicationError means that too few brokers are up for the replication factor of topics.
type ReplicationError struct {
	// Topic is the first of the topics, and Others the number of further ones.
	Topic  string
	Others int
	// Replicas is the replication factor.
	Replicas int
	// Chosen means that the replication factor was not configured, but derived from the size of the cluster.
	Chosen bool
	// Up is the number of live brokers, and Brokers that of the cluster.
	Up, Brokers int
}

// Error includes the resulting replication and the remedy.
func (e *ReplicationError) Error() string {
	topics, why := e.Topic, "as topics.replication says"
	if e.Others > 0 {
		topics = fmt.Sprintf("%s and %d more", e.Topic, e.Others)
	}
	if e.Chosen {
		why = fmt.Sprintf("because the cluster has %d brokers and topics.replication is 0", e.Brokers)
	}
	allow := "1"
	if e.Up > 1 {
		allow = fmt.Sprintf("%d or fewer", e.Up)
	}
	return fmt.Sprintf("%s would get %d replicas, %s, but only %d of %d brokers can be reached: start the others, or set "+
		"topics.replication to %s",
		topics, e.Replicas, why, e.Up, max(e.Up, e.Brokers), allow)
}
