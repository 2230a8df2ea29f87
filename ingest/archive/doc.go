// Package archive reads the messages of a topic from files to which a sink has written them, each with its partition and offset.
// The files are in directories or buckets, or on a web server.
//
// A layout defines where file names and rows have the topic, the partition and the offset. A row of a file is decoded once, and
// package ingest reads it like a message of a topic.
package archive
