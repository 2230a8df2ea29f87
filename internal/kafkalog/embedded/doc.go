// Package embedded is a Kafka broker inside this process: kfake, with a lock on its directory, safe cleaning and repair of its
// files, restarts and connections.
//
//	data directory ──Start──▶ Broker ──Pipe, a port──▶ connections of Kafka's protocol
package embedded
