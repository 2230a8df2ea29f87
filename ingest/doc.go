// Package ingest reads examples from files, publishes them on the examples
// topic, and decides which messages of that topic count in a run.
//
// Sources makes a Source of each file, or of each idx pair of images and labels.
// The batches of a source depend on the files' bytes and the options alone. So
// Publish continues where an interrupted one stopped, and a source that is on
// the topic is recognised by its ID and not published again. Replay picks out
// the messages that count when a worker reads the topic.
//
// Each input format is one value in one file, as in idx.go and csv.go, and a
// line in the table of format.go. Files may be compressed by gzip or bzip2.
package ingest
