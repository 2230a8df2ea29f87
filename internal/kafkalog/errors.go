package kafkalog

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownTopic says that the brokers have no such topic, or the topic no such partition.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrClosed says that the log or the reader was closed.
	ErrClosed = errors.New("log is closed")
)

// DeletedError says that a reader needs an offset that the partition no longer holds: retention deleted it, or the topic
// was deleted and made anew. What remains is [First, End).
type DeletedError struct {
	Topic              string
	Partition          int
	Wanted, First, End int64
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("%s[%d] no longer holds offset %d, but [%d, %d)", e.Topic, e.Partition, e.Wanted, e.First, e.End)
}

// LockedError says that a data directory is in use. PID is 0 when its owner did not say.
type LockedError struct {
	Dir string
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d", e.Dir, e.PID)
}
