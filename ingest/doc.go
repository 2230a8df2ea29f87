// Package ingest reads examples from files and publishes them on the examples
// topic.
//
// Sources makes a Source of each file, or of each idx pair of images and labels.
// The batches of a source depend on the files' bytes and the options alone. So
// Publish continues where an interrupted one stopped, and a source that is on
// the topic is recognised by its ID and not published again. Package
// pipeline/counting picks out the messages that count when a worker reads the topic.
//
// Each input format is a package under ingest/format and a line in the table of
// format.go. Package layout gives columns their roles, package vocabulary counts the
// words of texts, and package input opens files, compressed or not.
package ingest
