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

// Appender appends messages to a partition of the examples topic, in order, and returns the offset of the first. Publish
// calls it from one goroutine for each partition.
type Appender func(ctx context.Context, partition int, messages ...wire.Message) (int64, error)

// Attempt is an attempt at publishing a source. If it was interrupted, Spans has the offsets of its existing messages.
type Attempt struct {
	// ID distinguishes the messages of this attempt from those of other attempts at the same source.
	ID string
	// Spans has an element for each partition of the topic, at least one, with the offsets of this attempt's messages, which
	// are the first sequence numbers of that partition. Empty: none.
	Spans []coverage.Span
}

// queueLength is the maximum number of encoded messages that wait for the writer of a partition.
const queueLength = 4

// Publish writes the messages of a source that are not yet on the examples topic and returns the seal of the source. The
// messages count only after the caller has written the seal. Sequence number s is written to partition s mod the number of
// partitions. After each batch, Publish calls progress with the number of rows so far, including existing ones. At the end it calls lost
// with the columns that most rows lack from some row on, although earlier rows had them, and the number of these rows.
func Publish(ctx context.Context, s Source, attempt Attempt, write Appender, mem memory.Allocator,
	progress func(rows int64), lost func(columns map[string]int64)) (*schemas.SourceSeal, error) {
	spans := slices.Clone(attempt.Spans)
	partitions := int64(len(spans))
	seal := &schemas.SourceSeal{ID: s.ID, Attempt: attempt.ID, Files: s.names(), Split: s.Split.String(), Partitions: len(spans),
		After: s.after}
	if s.isFile() {
		seal.Content, seal.Bytes = s.stored[0].digest, s.stored[0].bytes
	}
	group, ctx := errgroup.WithContext(ctx)
	queues := make([]chan wire.Message, partitions)
	for p := range queues {
		queue := make(chan wire.Message, queueLength)
		queues[p] = queue
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
		for rows, err := range s.batches(ctx, lost) {
			if err != nil {
				return err
			}
			if p := seal.Messages % partitions; seal.Messages/partitions >= attempt.Spans[p].Len() { // it is not there yet
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
