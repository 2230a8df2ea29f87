// Package input opens files of any format: it decompresses and digests their content, and its errors include the file and
// the line or offset. Formats interpret the bytes.
package input
