package protocol

import (
	"context"
	"io"
	"time"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Log is the log that the roles need: Kafka or the embedded broker, or in a simulation a log in memory with
// injected faults. A log is safe for concurrent use.
type Log interface {
	// Append writes messages to the end of a partition in their order, and returns the offset of the first.
	Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error)
	// Scatter writes messages to the end of a partition in any order, and returns the offset of each.
	Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) ([]int64, error)
	// Bounds returns the first offset that a partition has, and the one after its last.
	Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error)
	// Spans returns the offsets that each partition has, the empty ones too, in the order of the partitions.
	Spans(ctx context.Context, topic string) ([]coverage.Span, error)
	// Before returns for each partition the offset after the messages that are older than age. It may be an earlier one.
	Before(ctx context.Context, topic string, age time.Duration) ([]int64, error)
	// DeleteBefore deletes the messages of a partition before an offset. Compacted topics do not allow it.
	DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error
	// Partitions returns how many partitions a topic has.
	Partitions(ctx context.Context, topic string) (int, error)
	// Range reads the messages with offsets from (included) to to (excluded). The caller closes the reader.
	Range(topic string, partition int, from, to int64) Reader
	// Subscribe follows partitions until the caller closes the subscription. A value from wake, which may be nil, ends a wait.
	Subscribe(ctx context.Context, wake <-chan struct{}, from ...Position) Subscription
}

// Reader reads messages one by one. Next returns [io.EOF] after the last.
type Reader interface {
	// Next waits for a message and returns it. At the end of the range it returns [io.EOF].
	Next(ctx context.Context) (Message, error)
	Close() error
}

// Message is a message, its offset on its partition, and when it was written.
type Message struct {
	wire.Message
	Offset int64
	Time   time.Time
}

// Position is the beginning of a subscription on a partition.
type Position struct {
	Topic     string
	Partition int
	Offset    int64
	// Compacted allows missing offsets, because compaction removes messages, and offsets that are used again, because an
	// unclean election of a leader has lost their messages. Without it either is an error.
	Compacted bool
}

// Subscription delivers the messages of several partitions as they are written, in order within each partition. It belongs
// to one goroutine.
type Subscription interface {
	// Next returns the next delivery. A nil delivery means a timeout, or that messages were lost (both late), or a wake-up.
	Next(ctx context.Context, timeout time.Duration) (d *Delivery, late bool, err error)
	Close()
}

// Delivery is a message, its topic and its partition.
type Delivery struct {
	Topic     string
	Partition int
	Message
}

// each calls with for all messages of a reader, and closes it.
func each(ctx context.Context, r Reader, with func(Message) error) error {
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := with(m); err != nil {
			return err
		}
	}
}
