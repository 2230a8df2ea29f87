package protocol

import (
	"cmp"
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Client reads and writes the topics of one pipeline. Every role has one. It is safe for concurrent use.
type Client struct {
	Log    Log
	Topics Topics
	Codec  codec.Codec
	// Fresh returns a text that is unique across calls and processes.
	Fresh func() string
	Clock Clock
	// Alone reports whether no other process reads the topics, as on an embedded broker that does not listen: then nothing is kept for
	// others.
	Alone bool
	// GiveUp is the time after which a run that no process starts is given up; 0: never.
	GiveUp time.Duration
	// LedgerMessages is the number of messages on the plans topic after which a ledger is written, so that readers can skip the
	// messages before it; 0 is 64. A run has a plan and an end.
	LedgerMessages int

	// Grams and Crosses are memory of Gram matrices and of cross moments, which the roles pass to each other; nil: they have new memory
	// each time.
	Grams   *accumulate.BufferPool
	Crosses *accumulate.CrossPool

	newest *atomic.Pointer[model.Model] // of a chain: see Remember; nil: none is remembered
}

// ledgerMessages returns LedgerMessages, or its default.
func (c *Client) ledgerMessages() int { return cmp.Or(c.LedgerMessages, 64) }

// NewClient returns the client of the pipeline of that name. Arrow allocates from mem; nil is Go's memory.
func NewClient(log *kafkalog.Log, name string, mem memory.Allocator) *Client {
	return &Client{
		Log: brokers{log}, Topics: TopicsOf(name), Codec: codec.New(mem, 0), Fresh: rand.Text, Alone: log.Embedded() && len(log.Addr()) == 0,
		Grams: new(accumulate.BufferPool), Crosses: new(accumulate.CrossPool), newest: new(atomic.Pointer[model.Model]),
	}
}

// Beside returns a client of the same log for another pipeline, which reads the examples of this one.
func (c *Client) Beside(name string) *Client {
	beside := *c
	beside.Topics, beside.GiveUp = TopicsOf(name), 0
	beside.Topics.Examples = c.Topics.Examples
	beside.Grams, beside.Crosses, beside.newest = new(accumulate.BufferPool), new(accumulate.CrossPool), new(atomic.Pointer[model.Model])
	return &beside
}

// Between calls with for the messages of a partition with offsets from (included) to to (excluded), in order. An error of with
// ends it, and is returned.
func (c *Client) Between(ctx context.Context, topic string, partition int, from, to int64, with func(Message) error) error {
	return each(ctx, c.Log.Range(topic, partition, from, to), with)
}

// Remaining is [Client.Between] for what the partition still has of the range.
func (c *Client) Remaining(ctx context.Context, topic string, partition int, from, to int64, with func(Message) error) error {
	first, end, err := c.Log.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	return c.Between(ctx, topic, partition, max(first, from), min(to, end), with)
}

// Now returns the ends of weights and statistics as they are now. The records of a run that begins now come after them.
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

// WriteRecord writes the messages of a record to a partition, in any order, and returns where they are.
func WriteRecord[T wire.Number](ctx context.Context, c *Client, topic string, partition int, r *wire.Record[T]) (*Written, error) {
	messages, err := codec.EncodeRecord(c.Codec, r)
	if err != nil {
		return nil, err
	}
	return c.scatter(ctx, r.Identity, topic, partition, messages)
}

// GiveRecord is [WriteRecord] for a writer that does not use the record's tensors afterwards, not even if it returns an
// error. If no other process can read it, the first who reads it has them without a copy.
func GiveRecord(ctx context.Context, c *Client, topic string, partition int, r *wire.Record[float64]) (*Written, error) {
	messages, err := c.Codec.Give(r, c.Alone)
	if err != nil {
		return nil, err
	}
	return c.scatter(ctx, r.Identity, topic, partition, messages)
}
