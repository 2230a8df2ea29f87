package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// AfterChain returns the options for files or a topic whose rows extend a chain of versions: with the layout of the earlier
// rows. Without a chain, or without files and a topic, it returns the options unchanged. No row of a chain may be on the
// topic twice, because a chain trains on all of it.
func AfterChain(ctx context.Context, p *topics.Pipeline, o ingest.Options) (ingest.Options, error) {
	if !o.ReadsRows() {
		return o, nil
	}
	m, err := p.Model(ctx, protocol.Latest)
	switch {
	case protocol.IsMissing(err):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("read what the chain has learnt: %w", err)
	case m.Manifest.Plan.Chain == nil:
		return o, nil
	}
	p.Remember(m) // the next run continues from it, if it is the newest of the chain
	o.Once = true
	o.Options = o.After(&layout.Learnt{Version: m.Manifest.Version, Sparse: m.Sparse(), Width: m.Width(), Columns: m.Columns(),
		Topic: o.FromTopic, First: m.Manifest.Plan.Input.FirstIndex})
	return o, nil
}

// AfterIngested returns the options for files or a topic from which the first version of a chain is trained together with earlier
// sources, such as those of `ingest`: with the layout of these. If the options already have the layout of a version, or
// there are no such sources, it returns the options unchanged.
func AfterIngested(ctx context.Context, p *topics.Pipeline, o ingest.Options) (ingest.Options, error) {
	if !o.ReadsRows() || o.Found.Learnt != nil {
		return o, nil
	}
	first, err := firstIngested(ctx, p)
	if err != nil || first == nil {
		return o, err
	}
	if learnt := ingest.RowsOf(first.Value, o.FromTopic); learnt != nil {
		o.Options = o.After(learnt)
	}
	return o, nil
}

// firstIngested returns the first message of a source ingested from files; nil: there is none on the topic.
func firstIngested(ctx context.Context, p *topics.Pipeline) (first *protocol.Message, err error) {
	l, bounds, forgotten, err := readTopics(ctx, p)
	if err != nil {
		return nil, err
	}
	for id := range l.Sources() {
		if forgotten.Sources[id] {
			continue
		}
		seal, err := SealOf(ctx, p, l, bounds, id)
		if err != nil {
			return nil, err
		}
		if seal == nil {
			continue
		}
		for _, span := range seal.Spans {
			for m, err := range p.Between(ctx, p.Topics.Examples, span.Partition, span.From, min(span.From+1, span.To)) {
				return &m, err
			}
		}
	}
	return nil, nil
}

// withLayout returns the options of the job for rows that follow those on the examples topic: columns with names have the same
// positions, regardless of their order in the options, and the same words, units and offsets. Without such rows, the words of
// categorical columns and the units of times are those that the topic has now. Processes that start following a topic before it has any
// examples may find different words: then the rows of one of them have other columns, and are quarantined. So one process should start
// before the others.
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
	for m, err := range f.Remaining(ctx, f.Topic, bound.Partition, bound.From, bound.To) {
		if err != nil || words.Enough() {
			return err
		}
		value := ingest.MessageOf(bound.Partition, m.Offset, m.Time, m.Message, m.Rows)
		err := f.whileAway(ctx, func(context.Context) error { return nil }, func() error { return words.Add(ctx, value) })
		if err != nil {
			return err
		}
	}
	return nil
}

// after returns the options for rows after those of the topic on the examples topic, or else after those of the chain, or of
// ingested files.
func (f *Following) after(ctx context.Context, spans []coverage.Span) (o ingest.Options, err error) {
	o = f.Job.Examples
	if f.earlier {
		if err := f.checkNumbers(ctx, o); err != nil {
			return o, err
		}
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
			for m, err := range f.Between(ctx, f.Topics.Examples, span.Partition, from, span.To) {
				if err != nil {
					return nil, err
				}
				if origin, ok := schemas.OriginOf(m.Message); ok && origin.Source == schemas.TopicSource(f.Topic) {
					last, f.last = ingest.RowsOf(m.Value, f.Topic).With(last), m
				}
			}
			if from == span.From {
				break
			}
		}
	}
	return last, nil
}

// checkReading returns an error if no message from which the last rows of the attempt come can be used: the configuration has changed
// since, and all later messages would go to quarantine, where they would stay even if the configuration was restored.
func (f *Following) checkReading(ctx context.Context, o ingest.Options, attempt int) error {
	origin, ok := schemas.OriginOf(f.last.Message)
	if !ok || origin.Attempt != strconv.Itoa(attempt) {
		return nil
	}
	origins, err := examples.RowOriginsOf(f.last.Message)
	if err != nil {
		return err
	}
	values, err := ingest.NewValues(o)
	if err != nil {
		return err
	}
	var first error
	for _, of := range origins {
		for m, err := range f.Remaining(ctx, f.Topic, of.Partition, of.Offset, of.Offset+int64(of.Messages)) {
			if err != nil {
				return err
			}
			value := ingest.MessageOf(of.Partition, m.Offset, m.Time, m.Message, m.Rows)
			err := f.whileAway(ctx, func(context.Context) error { return nil }, func() error { return values.Check(ctx, value) })
			if unusable, _ := ingest.Unusable(err); err == nil || !unusable || ctx.Err() != nil {
				return err
			}
			first = cmp.Or(first, fmt.Errorf("%s[%d]@%d: %s", f.Topic, of.Partition, m.Offset, schemas.WithoutValues(err.Error())))
		}
	}
	if first == nil { // deleted
		return nil
	}
	return fmt.Errorf("the messages that the last rows come from can't be used any more: %w. Restore the keys under examples, or give the "+
		"pipeline another name", first)
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
