package ingest

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Appender writes messages to a partition of the examples topic, in their order,
// and returns the offset of the first. Publish calls it from one goroutine for
// each partition.
type Appender func(ctx context.Context, partition int, messages ...wire.Message) (int64, error)

// Attempt is one attempt at publishing a source. If it was interrupted, Spans
// says which of its messages are on the topic already.
type Attempt struct {
	// ID tells the messages of this attempt from those of other attempts at the
	// same source.
	ID string
	// Spans has an element for each partition of the topic, at least one, with the
	// offsets of this attempt's messages. These are the first sequences of that
	// partition. Empty: none are there.
	Spans []coverage.Span
}

// queueLength is how many encoded messages may wait for the writer of a
// partition.
const queueLength = 4

// Publish writes the messages of a source that are not yet on the examples topic
// and returns the seal of the source. The messages count only when the caller has
// put the seal on its topic. Sequence s goes to partition s mod the number of
// partitions. Publish calls progress after each batch with the number of rows so
// far, including those that were there already.
func Publish(ctx context.Context, s Source, attempt Attempt, write Appender, mem memory.Allocator,
	progress func(rows int64)) (*schemas.SourceSeal, error) {
	spans := slices.Clone(attempt.Spans)
	partitions := int64(len(spans))
	there := make([]int64, partitions) // how many messages each partition has already
	seal := &schemas.SourceSeal{ID: s.ID, Attempt: attempt.ID, Files: s.names(), Split: s.Split.String(), Partitions: len(spans),
		After: s.after}
	if s.isFile() {
		seal.Content, seal.Bytes = s.digests[0], s.sizes[0].bytes
	}
	group, ctx := errgroup.WithContext(ctx)
	queues := make([]chan wire.Message, partitions)
	for p := range queues {
		queue := make(chan wire.Message, queueLength)
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
				m, err := schemas.Origin{Source: seal.ID, Attempt: seal.Attempt, Sequence: seal.Messages}.Message(rows, mem)
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
