package archive

import "fmt"

// GapError means that neither an archive nor the topic has some messages.
type GapError struct {
	Topic     string
	Partition int
	From, To  int64 // the offsets, [From, To)
}

// Error includes the remedy.
func (e *GapError) Error() string {
	return fmt.Sprintf("%s[%d]: neither the archive nor the topic has the offsets %d to %d: add the files with them to "+
		"examples.archive.files, or set examples.archive.on_gap to %s to count them as lost", e.Topic, e.Partition, e.From, e.To-1, GapContinue)
}

// ConflictError means that two copies of a message differ.
type ConflictError struct {
	Topic     string
	Partition int
	Offset    int64
	File      string
	Other     string // the other file; "": the topic
	Reason    string // "": the bytes differ
}

// Error includes the remedy.
func (e *ConflictError) Error() string {
	other := e.Other
	if other == "" {
		other = "the topic"
	}
	text := fmt.Sprintf("%s[%d]@%d: %s has another message than %s", e.Topic, e.Partition, e.Offset, e.File, other)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text + ". Is the archive of another topic, or was the topic made again? Remove the wrong files from examples.archive.files"
}
