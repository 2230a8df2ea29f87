// Package archive reads the messages of a topic from files to which a sink has written them, each with its partition and offset.
// The files are in directories or buckets, or on a web server.
//
// A layout says where files and rows have the topic, the partition and the offset. A row of a file is decoded once, and package ingest
// reads it as it reads messages of a topic.
package archive
