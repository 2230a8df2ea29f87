// Package prequential evaluates a chain on messages before training on them: the prequential error over the log, and
// changes of the stream.
package prequential
