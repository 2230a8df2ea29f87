// Package registry gets the schemas of messages from a schema registry, by the IDs in the messages.
//
// The registry speaks the protocol of Confluent's. A schema with an ID never changes, so each is fetched once.
package registry
