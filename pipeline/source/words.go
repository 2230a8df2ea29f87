package source

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// withLayout returns the options of the job for rows that follow those on the examples topic: columns with names have the
// same positions, whatever their order in the options, and the same words, units and offsets. Without such rows, the words of
// categorical columns and the units of times are those that the topic has now. Processes that start following a topic before it
// has any examples may find different words: then the rows of one of them have other columns, and are quarantined. So one process should
// start before the others.
func (f *Following) withLayout(ctx context.Context, spans []coverage.Span) (o ingest.Options, err error) {
	if o, err = f.after(ctx, spans); err != nil {
		return o, fmt.Errorf("find the columns of rows of %s: %w", f.Topic, err)
	}
	if !o.FindsWords() {
		return o, nil
	}
	if o.Found.Learnt != nil {
		for _, c := range o.Categorical {
			if len(o.Found.Categories[c]) == 0 && !o.Mixed() {
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
		if err := f.addWords(ctx, words, bound); err != nil {
			return o, fmt.Errorf("find the words in %s: %w", f.Topic, err)
		}
	}
	o, err = words.Options()
	if err != nil {
		return o, fmt.Errorf("%s: %w", f.Topic, err)
	}
	return o, nil
}

// addWords adds the words of the messages of a partition that are not deleted, until there are enough.
func (f *Following) addWords(ctx context.Context, words *ingest.TopicWords, bound coverage.Span) error {
	for from := bound.From; from < bound.To; {
		err := f.Between(ctx, f.Topic, bound.Partition, from, bound.To, func(m protocol.Message) error {
			if words.Enough() {
				return errEnough
			}
			value := ingest.MessageOf(bound.Partition, m.Offset, m.Time, m.Message, m.Row)
			return f.whileAway(ctx, func() error { return nil }, func() error { return words.Add(ctx, value) })
		})
		if err == nil || errors.Is(err, errEnough) {
			return nil
		}
		deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
		if !ok || deleted.Wanted >= deleted.First {
			return err
		}
		from = deleted.First
	}
	return nil
}

var errEnough = errors.New("enough rows are read")

// after returns the options for rows after those of the topic on the examples topic, or else after those of the chain, or of
// ingested files.
func (f *Following) after(ctx context.Context, spans []coverage.Span) (o ingest.Options, err error) {
	o = f.Job.Examples
	if f.earlier {
		err = f.checkNumbers(ctx, o)
	}
	if err != nil {
		return o, err
	}
	if f.earlier {
		last, err := f.lastRows(ctx, spans)
		if err != nil || last == nil {
			return o, err
		}
		if chain := o.Found.Learnt; chain != nil { // as run has found
			last.Version = chain.Version
		}
		o.Options = o.After(last)
		return o, nil
	}
	if o, err = AfterChain(ctx, f.Pipeline, o); err == nil {
		o, err = AfterIngested(ctx, f.Pipeline, o)
	}
	return o, err
}

// lastRows describes the rows in the last messages of the topic in an examples partition; nil: there are none.
func (f *Following) lastRows(ctx context.Context, spans []coverage.Span) (last *layout.Learnt, err error) {
	for _, span := range spans {
		for count := int64(lookBack); last == nil; count *= 2 {
			from := max(span.From, span.To-count)
			err := f.Between(ctx, f.Topics.Examples, span.Partition, from, span.To, func(m protocol.Message) error {
				if origin, ok := schemas.OriginOf(m.Message); ok && origin.Source == schemas.TopicSource(f.Topic) {
					last = ingest.RowsOf(m.Value, f.Topic).With(last)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			if from == span.From {
				break
			}
		}
	}
	return last, nil
}

// checkNumbers returns an error if the newest version of the chain was trained on other columns, by their numbers. Rows of
// CSV do not have the numbers of their columns.
func (f *Following) checkNumbers(ctx context.Context, o ingest.Options) error {
	m, err := f.Version(ctx, protocol.Latest)
	switch {
	case protocol.IsMissing(err):
		return nil
	case err != nil:
		return err
	case m.Plan.Chain == nil || len(m.Columns) > 0:
		return nil
	}
	key, was, now := "use", m.Plan.Input.Use, o.Columns.Use
	if len(was)+len(now) == 0 {
		key, was, now = "drop", m.Plan.Input.Drop, o.Columns.Drop
	} else if len(was) == 0 {
		return nil // all columns: their number is compared
	}
	if !slices.Equal(slices.Sorted(slices.Values(was)), slices.Sorted(slices.Values(now))) {
		return fmt.Errorf("examples.columns.%s: %q, but version %d of the chain has learnt rows with %q: restore the columns, or give the "+
			"pipeline another name to start a chain with these rows", key, now, m.Version, was)
	}
	return nil
}
