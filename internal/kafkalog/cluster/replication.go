package cluster

import "fmt"

// ReplicationError means that topics can't have their replicas, as too few brokers are up.
type ReplicationError struct {
	// Topic is the first of the topics, and Others is how many more there are.
	Topic  string
	Others int
	// Replicas is how many each message is to have.
	Replicas int
	// Chosen means that nobody asked for that number: it follows from the size of the cluster.
	Chosen bool
	// Up is how many brokers are up, and Brokers how many the cluster has.
	Up, Brokers int
}

// Error says how many replicas the topics would get, and what to do.
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
