package kafkalog

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownTopic means that the topic or the partition does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrClosed means that the log or the reader was closed.
	ErrClosed = errors.New("log is closed")
)

// DeletedError means that the partition no longer has an offset that a reader needs: retention deleted it, or the topic
// was recreated.
type DeletedError struct {
	// Topic and Partition are the partition that was read.
	Topic     string
	Partition int
	// Wanted is the needed offset.
	Wanted int64
	// First and End are the remaining offsets, [First, End).
	First, End int64
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("%s[%d] no longer holds offset %d; it holds [%d, %d)", e.Topic, e.Partition, e.Wanted, e.First, e.End)
}

// WriteError means that the embedded broker could not write to its files, for example because the disk is full.
type WriteError struct {
	// Path is the file or directory.
	Path string
	// Err is the error of the file system.
	Err error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("the embedded broker could not write to %s: %v; make room or allow it there, or set data_dir to a "+
		"folder on another disk", e.Path, e.Err)
}

// Unwrap returns Err.
func (e *WriteError) Unwrap() error { return e.Err }

// LockedError means that another process uses the data directory.
type LockedError struct {
	// Dir is the data directory.
	Dir string
	// PID is the id of the process that uses it, or 0 if it is unknown.
	PID int
	// Listen is the address at which its broker listens for other programs; empty: it does not.
	Listen string
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d", e.Dir, e.PID)
}
