// Package avro reads messages in Avro's binary encoding, with the schema of a registry or of a file.
//
// A schema is compiled once, into steps that read the columns and pass over everything else: a value becomes cells without a value of
// Go for each of its fields in between.
package avro
