package run

import (
	"context"
	"crypto/rand"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// Client reads and writes the topics of one pipeline. Every role has one. It is safe for concurrent use.
type Client struct {
	Log    Log
	Topics Topics
	Codec  Codec
	// Fresh returns a text that no other call returns, in this process or in another.
	Fresh func() string
}

// NewClient returns the client of the pipeline of that name. Arrow allocates from mem; nil is Go's memory.
func NewClient(log *kafkalog.Log, name string, mem memory.Allocator) *Client {
	return &Client{Log: brokers{log}, Topics: TopicsOf(name), Codec: NewCodec(mem, 0), Fresh: rand.Text}
}

// Each calls with for all messages that a partition has now, in order. An error of with ends it, and is returned.
func (c *Client) Each(ctx context.Context, topic string, partition int, with func(Message) error) error {
	first, end, err := c.Log.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	return c.Between(ctx, topic, partition, first, end, with)
}

// Between calls with for the messages of a partition with offsets from (included) to to (excluded), in order. An error of with
// ends it, and is returned.
func (c *Client) Between(ctx context.Context, topic string, partition int, from, to int64, with func(Message) error) error {
	return each(ctx, c.Log.Range(topic, partition, from, to), with)
}

// WriteRecord writes the messages of a record to a partition, in any order.
func WriteRecord[T schemas.Number](ctx context.Context, c *Client, topic string, partition int, r *schemas.Record[T]) error {
	messages, err := encode(c.Codec, r)
	if err != nil {
		return err
	}
	return c.Log.Scatter(ctx, topic, partition, messages...)
}
