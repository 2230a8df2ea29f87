// Package protobuf reads messages in Protobuf's binary encoding, with schemas from a registry or a file.
package protobuf
