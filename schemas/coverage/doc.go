// Package coverage describes the messages and rows of a topic that a sum includes: spans of offsets, accepted messages
// with a checksum, skipped messages with the reason, and forgotten rows.
//
//	Span, Forgotten ──Union, Merge──▶ Coverage of an Increment
package coverage
