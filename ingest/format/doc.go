// Package format defines the interface of input formats: how files are recognised and opened as batches of examples. Each
// format is a package below this one, and a line in the table of package ingest.
package format
