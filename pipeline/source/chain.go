package source

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
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
	o = o.CountingOnce()
	o.Options = o.After(&layout.Learnt{Version: m.Manifest.Version, Sparse: m.Sparse(), Width: m.Width(), Columns: m.Columns(),
		Topic: o.FromTopic, First: m.Manifest.Plan.Input.FirstIndex})
	return o, nil
}

// AfterIngested returns the options for files or a topic from which the first version of a chain is trained together with earlier
// sources, such as those of `ingest`: with the layout of these. If the options already have the layout of a version, or
// there are no such sources, it returns the options unchanged.
func AfterIngested(ctx context.Context, p *topics.Pipeline, o ingest.Options) (ingest.Options, error) {
	if !o.ReadsRows() || o.Learnt() != nil {
		return o, nil
	}
	first, err := firstIngested(ctx, p)
	if err != nil || first == nil {
		return o, err
	}
	if learnt := rowsOf(*first, o.FromTopic); learnt != nil {
		o.Options = o.After(learnt)
	}
	return o, nil
}

// rowsOf describes the rows of an examples message for rows that follow from a topic, or from files; nil if they can't be
// decoded, which their reader reports with their position.
func rowsOf(m protocol.Message, topic string) *layout.Learnt {
	batch, err := examples.Decode(m.Value, memory.DefaultAllocator)
	if err != nil {
		return nil
	}
	defer batch.Release()
	columns, err := examples.ParseColumns(batch.Columns())
	if err != nil {
		return nil
	}
	l := &layout.Learnt{Sparse: batch.Sparse, Width: batch.Width, Columns: columns, Topic: topic, Rows: batch.Rows}
	if columns != nil {
		l.Lacking = map[string]int{}
		width := columns.Features()
		features := make([]float32, batch.Rows*width)
		if batch.Sparse {
			var rows examples.SparseRows
			batch.SparseFeatures(&rows)
			rows.Leading(features, width)
		} else {
			batch.Features(features, width)
		}
		at := 0
		for _, c := range columns {
			lacking := 0
			for row := range batch.Rows {
				if x := features[row*width+at]; x != x {
					lacking++
				}
			}
			l.Lacking[c.Source()] = lacking
			at += c.Features()
		}
	}
	return l
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
