package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

const (
	// maxStubs is the maximum number of messages whose origins are in one message. All of them can be made again, or none.
	maxStubs = 256
	// maxStubBytes is the maximum length of their keys and headers, of which JSON has less than twice as much.
	maxStubBytes = wire.MaxMessage / 4
)

// Record writes the origins of the messages of an examples partition before an offset, as far as they are not on the origins
// topic. It returns the offsets that have expired before their origins were written: they can't be made again.
func (l *Remade) Record(ctx context.Context, partition int, end int64) (lost coverage.Span, err error) {
	first, _, err := l.Log.Bounds(ctx, l.topic, partition)
	if err == nil {
		err = l.read(ctx)
	}
	if err != nil {
		return lost, err
	}
	l.mutex.Lock()
	next := l.recorded[partition]
	l.mutex.Unlock()
	if next > 0 && next < first {
		lost = coverage.Span{Partition: partition, From: next, To: first}
	}
	from := max(next, first)
	w := originsWriter{Remade: l, Origins: schemas.Origins{Span: coverage.Span{Partition: partition, From: from, To: from}}}
	err = l.raw.Between(ctx, l.topic, partition, w.Span.From, end, func(m protocol.Message) error { return w.add(ctx, m) })
	if err == nil {
		err = w.flush(ctx)
	}
	if err == nil {
		err = l.trim(ctx)
	}
	if err != nil {
		return lost, fmt.Errorf("write the origins of the messages of %s[%d]: %w", l.topic, partition, err)
	}
	l.mutex.Lock()
	l.recorded[partition] = max(l.recorded[partition], end, w.Span.To)
	l.mutex.Unlock()
	return lost, nil
}

// trim deletes leading origins of messages that can't be made again, since the followed topic lacks theirs. The last ones of a partition
// stay, from which the next Record goes on.
func (l *Remade) trim(ctx context.Context) error {
	source, err := l.Log.Spans(ctx, l.options.FromTopic)
	if err != nil {
		return err
	}
	l.mutex.Lock()
	keep, first := l.next, l.next
	for _, pieces := range l.pieces {
		for i, p := range pieces {
			if first = min(first, p.at); i == len(pieces)-1 || p.within(source) {
				keep = min(keep, p.at)
			}
		}
	}
	for n := range l.pieces {
		l.pieces[n] = slices.DeleteFunc(l.pieces[n], func(p piece) bool { return p.at < keep })
	}
	l.mutex.Unlock()
	if first == keep {
		return nil
	}
	err = l.Log.DeleteBefore(ctx, l.raw.Topics.Origins, 0, keep)
	if errors.As(err, new(*kafkalog.AccessError)) {
		return nil // the permission is optional
	}
	return err
}

// originsWriter writes the origins of consecutive messages.
type originsWriter struct {
	*Remade
	schemas.Origins
	schema string // fingerprint
	bytes  int    // length of keys and headers
}

// add adds a message, or passes over one that ingest did not make from the followed topic.
func (w *originsWriter) add(ctx context.Context, m protocol.Message) error {
	origins, err := examples.RowOriginsOf(m.Message)
	if topic, _ := schemas.TopicOf(m.Message); err != nil || len(origins) == 0 || topic != w.options.FromTopic {
		err := w.flush(ctx)
		w.Span.From, w.Span.To = m.Offset+1, m.Offset+1
		return err
	}
	schema := schemas.SchemaOf(m.Message)
	if len(w.Stubs) == maxStubs || w.bytes > maxStubBytes || schema != w.schema {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if len(w.Stubs) == 0 {
		if w.Template, err = examples.Template(m.Value, w.memory); err != nil {
			return err
		}
		w.First, w.schema, w.bytes = map[int]int64{}, schema, 0
	}
	for _, o := range origins {
		if at, ok := w.First[o.Partition]; !ok || o.Offset < at {
			w.First[o.Partition] = o.Offset
		}
	}
	w.Stubs = append(w.Stubs, schemas.Stub{Offset: m.Offset, Time: m.Time.UnixMilli(), Key: m.Key, Headers: m.Headers,
		Checksum: schemas.ForgetChecksum(m.Message)})
	for _, h := range m.Headers {
		w.bytes += len(h.Key) + len(h.Value)
	}
	w.Span.To = m.Offset + 1
	return nil
}

// flush writes the origins that were added.
func (w *originsWriter) flush(ctx context.Context) error {
	if len(w.Stubs) == 0 {
		return nil
	}
	_, err := w.Log.Append(ctx, w.raw.Topics.Origins, 0, w.Message())
	w.Stubs, w.Span.From = nil, w.Span.To
	return err
}
