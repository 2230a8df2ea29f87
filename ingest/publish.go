package ingest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/schemas"
)

// Appender writes messages to one partition of the examples topic, in their
// order, and returns the offset of the first.
type Appender func(ctx context.Context, partition int, messages ...schemas.Message) (int64, error)

// Begun is what an interrupted Publish has left on the topic: by partition the
// offsets of its messages, which are the first sequences of that partition.
type Begun struct {
	Attempt string
	Spans   []schemas.Span
}

// waiting is how many encoded messages a partition's writer may be behind.
const waiting = 4

// Publish puts a source onto the examples topic and returns the seal that
// makes it count: until the seal is on its topic, nobody trains on a message of
// this attempt. Sequence s goes to partition s mod the number of partitions;
// what is begun is gone on with. progress is told the rows so far.
func Publish(ctx context.Context, s Source, begun Begun, write Appender, mem memory.Allocator, progress func(rows int64)) (*schemas.SourceSeal, error) {
	spans := begun.Spans
	partitions := int64(len(spans))
	there := make([]int64, partitions) // messages of each partition that need not be written
	seal := &schemas.SourceSeal{ID: s.ID, Attempt: begun.Attempt, Split: s.Split.String(), Partitions: len(spans)}
	group, ctx := errgroup.WithContext(ctx)
	queues := make([]chan schemas.Message, partitions)
	for p := range queues {
		queue := make(chan schemas.Message, waiting)
		queues[p], there[p] = queue, spans[p].To-spans[p].From
		group.Go(func() error {
			for m := range queue {
				at, err := write(ctx, p, m)
				if err != nil {
					return err
				}
				if spans[p].Empty() {
					spans[p].From = at
				}
				spans[p].To = at + 1
			}
			return nil
		})
	}
	group.Go(func() error {
		defer func() {
			for _, queue := range queues {
				close(queue)
			}
		}()
		for rows, err := range s.Batches(ctx) {
			if err != nil {
				return err
			}
			if p := seal.Messages % partitions; seal.Messages/partitions >= there[p] {
				m, err := message(rows, seal, mem)
				if err != nil {
					return err
				}
				select {
				case queues[p] <- m:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			seal.Messages++
			seal.Rows += int64(rows.Rows)
			progress(seal.Rows)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var err error
	if seal.Spans, err = seal.Spans.Union(spans); err != nil {
		return nil, fmt.Errorf("seal %v: %w", s.Files, err)
	}
	return seal, nil
}

// message of the next sequence of a source.
func message(rows *schemas.ExampleRows, seal *schemas.SourceSeal, mem memory.Allocator) (schemas.Message, error) {
	record := rows.Record(mem)
	defer record.Release()
	value, err := schemas.EncodeExamples(record, mem)
	if err != nil {
		return schemas.Message{}, fmt.Errorf("encode examples %d: %w", seal.Messages, err)
	}
	return schemas.Message{
		Key: fmt.Sprintf("%s/%d", seal.Header(), seal.Messages),
		Headers: []schemas.Header{
			{Key: "kind", Value: string(schemas.KindExamples)},
			{Key: "schema", Value: schemas.ExamplesFingerprint(record.Schema())},
			{Key: "source", Value: seal.Header()},
			{Key: "sequence", Value: strconv.FormatInt(seal.Messages, 10)},
		},
		Value: value,
	}, nil
}
