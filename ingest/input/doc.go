// Package input finds and opens files of any format: those that a pattern matches, and the tables in a directory, with
// partition values from directory names. It decompresses and digests their content, and its errors include the file and
// the line or offset. Formats interpret the bytes.
package input
