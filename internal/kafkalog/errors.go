package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/internal/kafkalog/embedded"
)

var (
	// ErrUnknownTopic means that the topic or the partition does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrClosed means that the log or the reader was closed.
	ErrClosed = embedded.ErrClosed
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
type WriteError = embedded.WriteError

// LockedError means that another process uses the data directory.
type LockedError = embedded.LockedError

// DamagedError means that a file of the embedded broker's log is damaged.
type DamagedError = embedded.DamagedError

// Repaired is a repaired part of the embedded broker's log.
type Repaired = embedded.Repaired

// Repair repairs the log in the data directory of an embedded broker: see [embedded.Repair].
func Repair(ctx context.Context, dir string) ([]Repaired, error) { return embedded.Repair(ctx, dir) }

// IsLoopback reports whether an address is one at which an embedded broker may listen: see [embedded.IsLoopback].
func IsLoopback(address string) bool { return embedded.IsLoopback(address) }
