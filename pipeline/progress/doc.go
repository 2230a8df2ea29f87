// Package progress derives the read position in a followed topic from the examples topic, and counts the waiting messages.
//
//	examples topic ──Read, Merge──▶ State ──Waiting.Count──▶ messages
package progress
