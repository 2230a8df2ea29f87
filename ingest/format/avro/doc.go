// Package avro reads messages in Avro's binary encoding, with schemas from a registry or a file.
//
// A schema is compiled once, into steps that read the wanted columns and skip everything else: a value is decoded directly
// to cells, without intermediate Go values for its fields.
package avro
