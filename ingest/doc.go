// Package ingest reads examples from files and publishes them on the examples topic.
//
// Sources returns a Source for each file, or for each idx pair of images and labels. The batches of a source depend only
// on the files' bytes and the options. So Publish continues an interrupted ingest, and a source that is on the topic is
// identified by its ID and not published again. Package pipeline/protocol selects the messages that count when a worker
// reads the topic.
//
// Each input format is in a package under ingest/format, and has a line in the table of format.go. Package layout assigns
// roles to columns and counts the words of texts, and package input opens files, compressed or not.
package ingest
