// Package input opens files of any kind: it decompresses and digests their content,
// and its errors name the file and the line or offset. Formats interpret the bytes.
package input
