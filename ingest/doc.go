// Package ingest turns files (idx, CSV; gz, bz2) and topics into record batches
// with their span.
//
// It is the first arrow of the flow. A file, or an idx pair of images and
// labels, is a Source: a series of batches that depends on the file's bytes and
// the options alone, so that an ingest that was interrupted can go on, and one
// that is complete is recognised by its identity and not repeated.
package ingest
