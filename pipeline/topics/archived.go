package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/archive"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// archivedLog is a log on which the source topic also has the messages of its archive. What the archive lacks between its messages
// and those of the topic is an *[archive.GapError], or, as configured, is like messages that the topic has deleted.
type archivedLog struct {
	protocol.Log
	options ingest.Options
	topic   string

	lock    sync.Mutex
	archive *archive.Archive // nil: not listed yet
}

// withArchive returns the log of a job: with the archive of its source topic, if there is one.
func withArchive(log protocol.Log, o ingest.Options) protocol.Log {
	if o.Archive.Files == "" || o.FromTopic == "" {
		return log
	}
	return &archivedLog{Log: log, options: o, topic: o.FromTopic}
}

// files lists the archive.
func (l *archivedLog) files(ctx context.Context) (_ *archive.Archive, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.archive == nil {
		l.archive, err = l.options.OpenArchive(ctx)
	}
	return l.archive, err
}

// Partitions implements protocol.Log.
func (l *archivedLog) Partitions(ctx context.Context, topic string) (partitions int, err error) {
	if topic != l.topic {
		return l.Log.Partitions(ctx, topic)
	}
	if !l.options.Archive.Alone {
		if partitions, err = l.Log.Partitions(ctx, topic); err != nil {
			return 0, err
		}
	}
	a, err := l.files(ctx)
	if err != nil {
		return 0, err
	}
	archived := a.Partitions()
	if !l.options.Archive.Alone && archived > partitions {
		return 0, fmt.Errorf("examples.archive.files have messages of %s[%d], but the topic has %d partitions: are they of another topic, or "+
			"was the topic made again?", topic, archived-1, partitions)
	}
	return max(partitions, archived), nil
}

// Spans implements protocol.Log.
func (l *archivedLog) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	if topic != l.topic {
		return l.Log.Spans(ctx, topic)
	}
	partitions, err := l.Partitions(ctx, topic)
	for p := 0; p < partitions && err == nil; p++ {
		span := coverage.Span{Partition: p}
		span.From, span.To, err = l.Bounds(ctx, topic, p)
		spans = append(spans, span)
	}
	return spans, err
}

// Bounds implements protocol.Log.
func (l *archivedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	if topic != l.topic {
		return l.Log.Bounds(ctx, topic, partition)
	}
	a, err := l.files(ctx)
	if err != nil {
		return 0, 0, err
	}
	if l.options.Archive.Alone {
		return a.Bounds(ctx, partition)
	}
	if first, end, err = l.Log.Bounds(ctx, topic, partition); err == nil {
		if archived, ok := a.First(partition); ok && archived >= end {
			err = fmt.Errorf("examples.archive.files begin at offset %d of %s[%d], which ends at offset %d: are they of another topic, or was "+
				"the topic made again?", archived, topic, partition, end)
		} else if ok {
			first = min(first, archived)
		}
	}
	return first, end, err
}

// Range implements protocol.Log.
func (l *archivedLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	if topic != l.topic {
		return l.Log.Range(topic, partition, from, to)
	}
	return &archivedRange{log: l, partition: partition, next: from, to: to}
}

// archivedRange reads the messages of the archive, and from the first offset of the topic on those of the topic, with their copies.
type archivedRange struct {
	log       *archivedLog
	partition int
	next, to  int64

	rows     *archive.Range // nil: not begun
	messages protocol.Reader
	first    int64             // offset of the topic
	archived *protocol.Message // the next message of the archive; nil: none
	missing  int64             // number of offsets before archived that no file has
	written  *protocol.Message // the next message of the topic; nil: none, or not read yet
	known    bool              // written is read
}

func (r *archivedRange) begin(ctx context.Context) error {
	a, err := r.log.files(ctx)
	if err != nil {
		return err
	}
	r.first = r.to
	if !r.log.options.Archive.Alone {
		first, end, err := r.log.Log.Bounds(ctx, r.log.topic, r.partition)
		if err != nil {
			return err
		}
		r.first = first
		r.to = min(r.to, max(end, first))
	}
	if from := max(r.next, r.first); from < r.to {
		r.messages = r.log.Log.Range(r.log.topic, r.partition, from, r.to)
	}
	r.rows = a.Range(r.partition, r.next, r.to)
	return r.advance(ctx)
}

// advance reads the next message of the archive.
func (r *archivedRange) advance(ctx context.Context) error {
	row, err := r.rows.Next(ctx)
	if r.archived = nil; err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	m := &protocol.Message{Message: wire.Message{Key: row.Key, Value: row.Value}, Offset: row.Offset, File: row.File}
	if row.SchemaID != "" {
		m.Headers = []wire.Header{{Key: ingest.SchemaHeader, Value: row.SchemaID}}
	}
	if row.Time != 0 {
		m.Time = time.UnixMilli(row.Time)
	}
	r.archived, r.missing = m, row.Missing
	return nil
}

// Next implements protocol.Reader.
func (r *archivedRange) Next(ctx context.Context) (protocol.Message, error) {
	if r.rows == nil {
		if err := r.begin(ctx); err != nil {
			return protocol.Message{}, err
		}
	}
	if m := r.archived; m != nil && m.Offset < r.first {
		if r.missing > 0 {
			from := m.Offset - r.missing
			r.missing = 0
			if err := r.gap(from, m.Offset); err != nil {
				return protocol.Message{}, err
			}
		}
		r.next = m.Offset + 1
		return *m, r.advance(ctx)
	}
	if end := min(r.first, r.to); r.next < end { // between the archive and the topic
		from := r.next
		if r.next = end; end == r.first && !r.log.options.Archive.Alone {
			if err := r.gap(from, end); err != nil {
				return protocol.Message{}, err
			}
		}
	}
	if r.messages != nil && !r.known {
		m, err := r.messages.Next(ctx)
		if err != nil && err != io.EOF {
			return m, err
		}
		if r.written, r.known = nil, true; err == nil {
			r.written = &m
		}
	}
	switch w, a := r.written, r.archived; {
	case a != nil && (w == nil || a.Offset < w.Offset): // the topic is compacted
		r.next = a.Offset + 1
		return *a, r.advance(ctx)
	case w == nil:
		return protocol.Message{}, io.EOF
	default:
		m := *w
		r.known, r.next = false, m.Offset+1
		if a != nil && a.Offset == m.Offset {
			m.Copy = a
			return m, r.advance(ctx)
		}
		return m, nil
	}
}

// gap returns an error about missing messages.
func (r *archivedRange) gap(from, to int64) error {
	if r.log.options.Archive.OnGap == archive.GapContinue {
		return &kafkalog.DeletedError{Topic: r.log.topic, Partition: r.partition, Wanted: from, First: to, End: r.to}
	}
	return &archive.GapError{Topic: r.log.topic, Partition: r.partition, From: from, To: to}
}

// Close implements protocol.Reader.
func (r *archivedRange) Close() (err error) {
	if r.rows != nil {
		err = r.rows.Close()
	}
	if r.messages != nil {
		err = errors.Join(err, r.messages.Close())
	}
	return err
}
