package protocol

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

// Client reads and writes the topics of one pipeline. Every role has one. It is safe for concurrent use.
type Client struct {
	Log    Log
	Topics Topics
	Memory memory.Allocator // Arrow allocates from it
	// Chunk is the approximate maximum size of the messages of a record, in bytes; 0: the brokers' limit.
	Chunk int
	// Fresh returns a string that is unique across calls and processes.
	Fresh func() string
	Clock Clock
	// Alone means that no other process reads the topics, as on an embedded broker without a listener. Nothing is then
	// retained for other processes.
	Alone bool
	// GiveUp is the time after which a run that no process has started ends as failed; 0: never.
	GiveUp time.Duration
	// KeepRuns is the number of ended runs that Prune leaves on the plans topic; 0 means 32.
	KeepRuns int

	// Distribute means that updates are planned for all workers, regardless of their size.
	Distribute bool
	// MatrixBytes is the maximum size of the matrices of a stage of sparse rows. Without a maximum it is 0.
	MatrixBytes int64

	newest *atomic.Pointer[model.Model] // newest version of a chain: see Remember; nil: none is remembered
	ledger *atomic.Pointer[Ledger]      // last ledger read: see ReadLedger; nil: none is remembered
	swept  *atomic.Int64                // offset of the versions topic: see sweepVersions; nil: nothing is remembered
}

// keepRuns returns KeepRuns or its default.
func (c *Client) keepRuns() int { return cmp.Or(c.KeepRuns, 32) }

// NewClient returns a client of the named pipeline. Arrow allocates from mem; nil means the Go heap.
func NewClient(log *kafkalog.Log, name string, mem memory.Allocator) *Client {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return &Client{
		Log: brokers{log}, Topics: TopicsOf(name), Memory: mem, Fresh: rand.Text, Alone: log.Embedded() && len(log.Addr()) == 0,
		newest: new(atomic.Pointer[model.Model]), ledger: new(atomic.Pointer[Ledger]), swept: new(atomic.Int64),
	}
}

// Beside returns a client, on the same log, of another pipeline that reads the examples of this one.
func (c *Client) Beside(name string) *Client {
	beside := *c
	beside.Topics, beside.GiveUp = TopicsOf(name), 0
	beside.Topics.Examples = c.Topics.Examples
	beside.newest, beside.ledger, beside.swept = new(atomic.Pointer[model.Model]), new(atomic.Pointer[Ledger]), new(atomic.Int64)
	return &beside
}

// Between yields the messages of a partition with offsets in [from, to), in order. It ends with the first error, unless messages were
// deleted: after an error for which [Deleted] returns true, a caller that continues gets the remaining messages.
func (c *Client) Between(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return between(ctx, c.Log, topic, partition, from, to)
}

// Read is [Client.Between], but yields messages of an archive with consecutive offsets together.
func (c *Client) Read(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return readRange(ctx, c.Log, topic, partition, from, to)
}

// Remaining is [Client.Between] for the part of the range that is still on the partition, even if messages are deleted meanwhile.
func (c *Client) Remaining(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		first, end, err := c.Log.Bounds(ctx, topic, partition)
		if err != nil {
			yield(Message{}, err)
			return
		}
		for m, err := range c.Between(ctx, topic, partition, max(first, from), min(to, end)) {
			if _, deleted := Deleted(err); !deleted && !yield(m, err) {
				return
			}
		}
	}
}

// Now returns the end offsets of the weights and statistics topics. The records of a run that starts now come after them.
func (c *Client) Now(ctx context.Context) (s schemas.Since, err error) {
	if _, s.Weights, err = c.Log.Bounds(ctx, c.Topics.Weights, 0); err != nil {
		return s, err
	}
	statistics, err := c.Log.Spans(ctx, c.Topics.Statistics)
	for _, bounds := range statistics {
		s.Statistics = append(s.Statistics, bounds.To)
	}
	return s, err
}
