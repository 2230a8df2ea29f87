package chain

import (
	"context"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// ReadAhead is the number of messages of a partition that are read at once to count their rows.
const ReadAhead = 64

// maxReadAhead is the maximum number of offsets of a partition that are read at once after as many without a message.
const maxReadAhead = 1 << 16

// readMore reads the next messages of a partition, if the topic has any.
func (b *Backlog) readMore(ctx context.Context, partition int) error {
	had := len(b.ahead[partition])
	for len(b.ahead[partition]) == had {
		span, any := b.late.next(partition, ReadAhead)
		if !any {
			break
		}
		if _, err := b.readSpan(ctx, span, ReadAhead, func(m protocol.Message) bool { return b.late.counts(partition, m.Message) }); err != nil {
			return err
		}
	}
	if len(b.ahead[partition]) > had || b.read[partition] >= b.bounds[partition] {
		return nil
	}
	// Not every offset holds a message: aborted transactions and compaction leave gaps of any length.
	for step := int64(ReadAhead); len(b.ahead[partition]) == had && b.read[partition] < b.bounds[partition]; step = min(2*step, maxReadAhead) {
		to := min(b.read[partition]+step, b.bounds[partition])
		to, err := b.readSpan(ctx, coverage.Span{Partition: partition, From: b.read[partition], To: to}, ReadAhead,
			func(protocol.Message) bool { return true })
		b.read[partition] = to
		if err != nil {
			return err
		}
	}
	return nil
}

// readSpan reads messages, up to the given number of wanted ones, and records their rows. It returns the offset after the
// last one read.
func (b *Backlog) readSpan(ctx context.Context, span coverage.Span, messages int, wanted func(protocol.Message) bool) (to int64,
	err error) {
	partition := span.Partition
	r := b.topic.Range(span)
	defer r.Close()
	for to = span.From; messages > 0; {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return span.To, nil
		}
		if err != nil {
			return to, fmt.Errorf("count the rows of %v[%d]: %w", b.topic, partition, err)
		}
		if to = m.Offset + 1; !wanted(m) {
			continue
		}
		c := counted{offset: m.Offset, until: schemas.TimeOf(m.Message, m.Time.UnixMilli()), mark: MarkOf(partition, m),
			counts: b.late.known(m.Message), lacks: schemas.LackingOf(m.Message)}
		if examples, err := b.topic.Examples(partition, m); err == nil {
			c.rows, c.counts = examples.Rows, c.counts && weighs(examples)
			if b.labels != nil {
				c.labels = b.labels(examples)
			}
			examples.Release()
		}
		b.ahead[partition] = append(b.ahead[partition], c)
		b.messages, b.rows, messages = b.messages+1, b.rows+int64(c.rows), messages-1
	}
	return to, nil
}

// weighs reports whether any row of examples has a weight.
func weighs(examples *examples.Batch) bool {
	for row := range examples.Rows {
		if examples.Weight(row) > 0 {
			return true
		}
	}
	return false
}

// MarkOf returns the mark of an examples message.
func MarkOf(partition int, m protocol.Message) coverage.Mark {
	return coverage.Mark{Partition: partition, Offset: m.Offset, Checksum: schemas.MessageChecksum(m.Message, m.Time.UnixMilli())}
}
