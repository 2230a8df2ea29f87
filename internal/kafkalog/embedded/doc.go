// Package embedded is a Kafka broker inside this process: kfake on the log of package disk, with locks, restarts and connections.
//
//	data directory ──Start──▶ Broker ──Pipe, a port──▶ connections of Kafka's protocol
package embedded
