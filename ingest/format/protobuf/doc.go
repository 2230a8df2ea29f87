// Package protobuf reads messages in Protobuf's binary encoding, with the schema of a registry or of a file.
package protobuf
