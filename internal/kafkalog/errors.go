package kafkalog

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/internal/kafkalog/disk"
	"github.com/stagewise/stagewise/internal/kafkalog/embedded"
	"github.com/stagewise/stagewise/internal/kafkalog/waits"
)

var (
	// ErrUnknownTopic means that the brokers do not have the topic, or the topic does not have the partition.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrClosed means that the log or the reader was closed.
	ErrClosed = embedded.ErrClosed
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
type WriteError = embedded.WriteError

// LockedError means that another process uses the data directory.
type LockedError = embedded.LockedError

// DamagedError means that a file of the embedded broker's log is not as it was written.
type DamagedError = disk.DamagedError

// Repaired is one place of the embedded broker's log that was damaged.
type Repaired = disk.Repaired

// Repair makes the log in the data directory of an embedded broker one that can be opened: see [embedded.Repair].
func Repair(dir string) ([]Repaired, error) { return embedded.Repair(dir) }

// IsLoopback reports whether an address is one at which an embedded broker may listen: see [embedded.IsLoopback].
func IsLoopback(address string) bool { return embedded.IsLoopback(address) }

// Wait reports an operation that is being retried because brokers fail.
type Wait = waits.Wait
