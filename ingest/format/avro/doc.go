// Package avro reads messages in Avro's binary encoding, with schemas from a registry or a file.
package avro
