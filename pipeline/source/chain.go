package source

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
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
			err := p.Between(ctx, p.Topics.Examples, span.Partition, span.From, min(span.From+1, span.To), func(m protocol.Message) error {
				first = &m
				return nil
			})
			if err != nil || first != nil {
				return first, err
			}
		}
	}
	return nil, nil
}
