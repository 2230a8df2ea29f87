package source

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// withWords returns the options of the job with the words of the categorical columns: those of the topic's existing
// examples, or else those that the topic has now. Processes that start following a topic before it has any examples may
// find different words: then the rows of one of them have other columns, and are quarantined. So one process should start
// before the others.
func (f *Following) withWords(ctx context.Context, spans []coverage.Span) (ingest.Options, error) {
	o := f.Job.Examples
	if len(o.Categorical) == 0 || o.Mixed() {
		return o, nil
	}
	if f.earlier {
		columns, err := f.lastColumns(ctx, spans)
		if err != nil {
			return o, fmt.Errorf("find the words in rows of %s: %w", f.Topic, err)
		}
		o = o.WithColumns(columns)
		for _, c := range o.Categorical {
			if len(o.WordsOf(c)) == 0 {
				return o, fmt.Errorf("examples.categorical: rows of %s on %s have no words in the column %s: expected the columns "+
					"of when the topic was first followed",
					f.Topic, f.Topics.Examples, c)
			}
		}
		return o, nil
	}
	words, err := ingest.NewTopicWords(o)
	if err != nil {
		return o, err
	}
	for _, bound := range f.Bounds {
		err := f.Between(ctx, f.Topic, bound.Partition, bound.From, bound.To, func(m protocol.Message) error {
			return f.whileAway(ctx, func() error { return nil }, func() error { return words.Add(ctx, messageOf(bound.Partition, m)) })
		})
		if err != nil {
			return o, fmt.Errorf("find the words in %s: %w", f.Topic, err)
		}
	}
	o, err = words.Options()
	if err != nil {
		return o, fmt.Errorf("%s: %w", f.Topic, err)
	}
	return o, nil
}

// lastColumns returns the columns of a message with rows of the topic, one of the last in an examples partition.
func (f *Following) lastColumns(ctx context.Context, spans []coverage.Span) (columns examples.Columns, err error) {
	for _, span := range spans {
		for count := int64(lookBack); columns == nil; count *= 2 {
			from := max(span.From, span.To-count)
			err := f.Between(ctx, f.Topics.Examples, span.Partition, from, span.To, func(m protocol.Message) error {
				if origin, ok := schemas.OriginOf(m.Message); !ok || origin.Source != schemas.TopicSource(f.Topic) {
					return nil
				}
				batch, err := examples.Decode(m.Value, f.Memory)
				if err != nil {
					return nil // the reader of the rows reports it
				}
				defer batch.Release()
				columns, err = examples.ParseColumns(batch.Columns())
				return err
			})
			if err != nil {
				return nil, err
			}
			if from == span.From {
				break
			}
		}
	}
	return columns, nil
}
