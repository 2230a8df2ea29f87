// Package prequential follows how the messages of a chain were predicted before they were learnt: the error over the
// log, and where the stream has changed.
package prequential
