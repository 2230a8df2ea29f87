package kafkalog

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownTopic means that the brokers do not have the topic, or the topic does not have the partition.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrClosed means that the log or the reader was closed.
	ErrClosed = errors.New("log is closed")
)

// DeletedError means that the partition no longer holds an offset that a reader needs: retention deleted it, or the topic
// was deleted and created again.
type DeletedError struct {
	// Topic and Partition are what was read.
	Topic     string
	Partition int
	// Wanted is the offset that the reader needs.
	Wanted int64
	// First and End are the offsets that remain, [First, End).
	First, End int64
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("%s[%d] no longer holds offset %d; it holds [%d, %d)", e.Topic, e.Partition, e.Wanted, e.First, e.End)
}

// WriteError means that the embedded broker could not write to its files, as when a disk is full.
type WriteError struct {
	// Path is the file or the folder.
	Path string
	// Err is the error of the file system.
	Err error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("the embedded broker could not write to %s: %v; make room or allow it there, or set data_dir to a folder on another disk", e.Path, e.Err)
}

// Unwrap returns Err.
func (e *WriteError) Unwrap() error { return e.Err }

// LockedError means that another process uses the data directory.
type LockedError struct {
	// Dir is the data directory.
	Dir string
	// PID is the id of the process that uses it, or 0 if it is unknown.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d", e.Dir, e.PID)
}
