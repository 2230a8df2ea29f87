package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	firsts  map[int]int64    // by partition: first offset of the topic when the archive was first used
}

// withArchive returns the log of a job: with the archive of its source topic, if there is one.
func withArchive(log protocol.Log, o ingest.Options) protocol.Log {
	if o.Archive.Files == "" || o.FromTopic == "" {
		return log
	}
	return &archivedLog{Log: log, options: o, topic: o.FromTopic, firsts: map[int]int64{}}
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

// first returns the first offset of a partition of the topic.
func (l *archivedLog) first(ctx context.Context, partition int) (first, end int64, err error) {
	if first, end, err = l.Log.Bounds(ctx, l.topic, partition); err != nil {
		return 0, 0, err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if _, ok := l.firsts[partition]; !ok {
		l.firsts[partition] = first
	}
	return first, end, nil
}

// outdated reports whether an archive was listed before the topic deleted messages, which a sink may have written to files in between.
func (l *archivedLog) outdated(a *archive.Archive, partition int, first int64) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.archive != a {
		return true
	}
	listed, ok := l.firsts[partition]
	if !ok || first <= listed {
		return false
	}
	l.archive = nil
	clear(l.firsts)
	return true
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

// Before implements protocol.Log.
func (l *archivedLog) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	if topic != l.topic || !l.options.Archive.Alone {
		return l.Log.Before(ctx, topic, age)
	}
	partitions, err := l.Partitions(ctx, topic)
	return make([]int64, partitions), err
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
	if first, end, err = l.first(ctx, partition); err == nil {
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

	archive  *archive.Archive
	rows     *archive.Range // nil: not begun
	messages protocol.Reader
	first    int64             // offset of the topic
	archived *protocol.Message // the next message of the archive; nil: none
	missing  int64             // number of offsets before archived that no file has
	written  *protocol.Message // the next message of the topic; nil: none, or not read yet
	known    bool              // written is read
	failed   error             // of the archive
}

func (r *archivedRange) begin(ctx context.Context) error {
	var err error
	if r.archive, err = r.log.files(ctx); err != nil {
		return err
	}
	r.first = r.to
	if !r.log.options.Archive.Alone {
		if r.first, _, err = r.log.first(ctx, r.partition); err != nil {
			return err
		}
	}
	r.open()
	r.rows = r.archive.Range(r.partition, r.next, r.to)
	r.advance(ctx)
	return nil
}

// open opens the part of the range that the topic has.
func (r *archivedRange) open() {
	if from := max(r.next, r.first); from < r.to {
		r.messages = r.log.Log.Range(r.log.topic, r.partition, from, r.to)
	}
}

// advance reads the next message of the archive. An error is final, and that of the next call of Next.
func (r *archivedRange) advance(ctx context.Context) {
	row, err := r.rows.Next(ctx)
	if r.archived = nil; err == io.EOF {
		return
	}
	if r.failed = err; err != nil {
		return
	}
	r.archived, r.missing = messageOf(row), row.Missing
}

// messageOf returns the message that a row was, with its copies.
func messageOf(row archive.Row) *protocol.Message {
	m := &protocol.Message{Message: wire.Message{Key: row.Key, Value: row.Value}, Offset: row.Offset, File: row.File}
	if row.Decoded != nil {
		m.Row = row.Decoded
	}
	if row.Time != 0 {
		m.Time = time.UnixMilli(row.Time)
	}
	for _, c := range slices.Backward(row.Copies) {
		of := messageOf(c)
		of.Copy, m.Copy = m.Copy, of
	}
	return m
}

// Next implements protocol.Reader.
func (r *archivedRange) Next(ctx context.Context) (protocol.Message, error) {
	if r.rows == nil {
		if err := r.begin(ctx); err != nil {
			return protocol.Message{}, err
		}
	}
	if r.failed != nil {
		return protocol.Message{}, r.failed
	}
	if m := r.archived; m != nil && m.Offset < r.first {
		from := max(m.Offset-r.missing, r.next) // the topic had those before
		if r.missing = 0; from < m.Offset {
			return r.gap(ctx, from, m.Offset)
		}
		r.next = m.Offset + 1
		r.advance(ctx)
		return *m, nil
	}
	if end := min(r.first, r.to); r.next < end && !r.log.options.Archive.Alone { // between the archive and the topic
		from := r.next
		r.next = end
		return r.gap(ctx, from, end)
	}
	if r.messages != nil && !r.known {
		m, err := r.messages.Next(ctx)
		if deleted, ok := errors.AsType[*kafkalog.DeletedError](err); ok && deleted.Wanted < deleted.First {
			err := r.messages.Close()
			if r.messages, r.first = nil, deleted.First; err != nil {
				return m, err
			}
			r.open()
			return r.Next(ctx) // the archive may have them
		}
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
		r.advance(ctx)
		return *a, nil
	case w == nil:
		return protocol.Message{}, io.EOF
	default:
		m := *w
		r.known, r.next = false, m.Offset+1
		if a != nil && a.Offset == m.Offset {
			m.Copy = a
			r.advance(ctx)
		}
		return m, nil
	}
}

// gap returns an error about missing messages, or the first of them if a later listing of the archive has it.
func (r *archivedRange) gap(ctx context.Context, from, to int64) (m protocol.Message, err error) {
	if r.log.outdated(r.archive, r.partition, r.first) {
		if err := r.Close(); err != nil {
			return m, err
		}
		*r = archivedRange{log: r.log, partition: r.partition, next: from, to: r.to}
		return r.Next(ctx)
	}
	if r.log.options.Archive.OnGap == archive.GapContinue {
		return m, &kafkalog.DeletedError{Topic: r.log.topic, Partition: r.partition, Wanted: from, First: to, End: r.to}
	}
	return m, &archive.GapError{Topic: r.log.topic, Partition: r.partition, From: from, To: to}
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
