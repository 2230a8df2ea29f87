// Package registry fetches the schemas of messages from a schema registry, by the IDs in the messages.
//
// It uses the API of Confluent's registry. A schema with an ID never changes, so each is fetched once.
package registry
