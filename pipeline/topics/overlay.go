package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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

// overlay is a log on which a topic also has the messages of a source.
type overlay struct {
	protocol.Log
	source
	topic string
	alone bool // the source has all messages: the topic is not read
}

// source has messages that a topic has deleted.
type source interface {
	// partitions returns the number of partitions, given that of the topic.
	partitions(ctx context.Context, there int) (int, error)
	// reach returns the bounds of a partition with the messages of the source, given those of the topic.
	reach(ctx context.Context, partition int, first, end int64) (from, to int64, err error)
	// rows reads messages of a partition, of which the topic has those from first on: these may be left out, the others are complete. An
	// error is a *kafkalog.DeletedError if the source lacks one.
	rows(partition int, from, to, first int64) protocol.Reader
}

// Partitions implements protocol.Log.
func (l *overlay) Partitions(ctx context.Context, topic string) (partitions int, err error) {
	if topic != l.topic || !l.alone {
		partitions, err = l.Log.Partitions(ctx, topic)
	}
	if topic != l.topic || err != nil {
		return partitions, err
	}
	return l.partitions(ctx, partitions)
}

// there returns the bounds of a partition of the topic.
func (l *overlay) there(ctx context.Context, partition int) (first, end int64, err error) {
	if l.alone {
		return math.MaxInt64, math.MaxInt64, nil
	}
	return l.Log.Bounds(ctx, l.topic, partition)
}

// Bounds implements protocol.Log.
func (l *overlay) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	if topic != l.topic {
		return l.Log.Bounds(ctx, topic, partition)
	}
	if first, end, err = l.there(ctx, partition); err != nil {
		return 0, 0, err
	}
	return l.reach(ctx, partition, first, end)
}

// Spans implements protocol.Log.
func (l *overlay) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	if topic != l.topic || !l.alone {
		spans, err = l.Log.Spans(ctx, topic)
	}
	if topic != l.topic || err != nil {
		return spans, err
	}
	partitions, err := l.partitions(ctx, len(spans))
	for p := 0; p < partitions && err == nil; p++ {
		if p == len(spans) {
			spans = append(spans, coverage.Span{Partition: p})
		}
		spans[p].From, spans[p].To, err = l.reach(ctx, p, spans[p].From, spans[p].To)
	}
	return spans, err
}

// Range implements protocol.Log.
func (l *overlay) Range(topic string, partition int, from, to int64) protocol.Reader {
	if topic != l.topic {
		return l.Log.Range(topic, partition, from, to)
	}
	return &overlayReader{overlay: l, partition: partition, next: from, to: to}
}

// overlayReader reads the messages of the source, and from the first offset of the topic on those of the topic, with their copies.
type overlayReader struct {
	*overlay
	partition      int
	next, to       int64
	first          int64  // offset of the topic
	below, written *ahead // of the source and of the topic. Nil means that they are not open.
}

// ahead reads messages, and holds the next ones.
type ahead struct {
	protocol.Reader
	head protocol.Message
	read bool // head has the next messages
}

// peek returns the next message, with those after it, which is valid until the next call; nil: there is none.
func (a *ahead) peek(ctx context.Context) (_ *protocol.Message, err error) {
	if !a.read {
		if a.head, err = a.Next(ctx); err == io.EOF {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		a.read = true
	}
	return &a.head, nil
}

// take returns those messages that peek has returned which are before an offset, or the first one if that is not.
func (a *ahead) take(before int64) protocol.Message {
	m := a.head
	n := max(1, min(before-m.Offset, int64(m.Len())))
	if a.read = n < int64(m.Len()); a.read {
		a.head = m.Part(int(n), m.Len())
	}
	return m.Part(0, int(n))
}

// Next implements protocol.Reader.
func (r *overlayReader) Next(ctx context.Context) (m protocol.Message, err error) {
	for {
		if r.below == nil {
			if r.first, _, err = r.there(ctx, r.partition); err != nil {
				return m, err
			}
			r.below = &ahead{Reader: r.rows(r.partition, r.next, r.to, r.first)}
			if from := max(r.next, r.first); from < r.to {
				r.written = &ahead{Reader: r.Log.Range(r.topic, r.partition, from, r.to)}
			}
		}
		earlier, err := r.below.peek(ctx)
		if err != nil {
			return m, err
		}
		var written *protocol.Message
		if r.written != nil && (earlier == nil || earlier.Offset >= r.first) {
			written, err = r.written.peek(ctx)
			if deleted, ok := errors.AsType[*kafkalog.DeletedError](err); ok && deleted.Wanted < deleted.First { // the source may have them
				if err := r.Close(); err != nil {
					return m, err
				}
				continue
			}
			if err != nil {
				return m, err
			}
		}
		switch {
		case earlier == nil && written == nil:
			return m, io.EOF
		case written == nil:
			m = r.below.take(r.first)
		case earlier != nil && earlier.Offset < written.Offset: // the topic is compacted
			m = r.below.take(written.Offset)
		default:
			m = r.written.take(0)
			if earlier != nil && earlier.Offset == m.Offset {
				archived := r.below.take(0)
				m.Copy = &archived
			}
		}
		r.next = m.Offset + int64(m.Len())
		return m, nil
	}
}

// Close implements protocol.Reader.
func (r *overlayReader) Close() (err error) {
	for _, a := range []*ahead{r.below, r.written} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	r.below, r.written = nil, nil
	return err
}

// archived is a log on which the source topic also has the messages of its archive. What the archive lacks between its messages
// and those of the topic is an *[archive.GapError], or, as configured, is like messages that the topic has deleted.
type archived struct {
	overlay
	options ingest.Options

	lock    sync.Mutex
	archive *archive.Archive // nil: to be listed
	missing map[int]int64    // by partition: first offset of the topic when the archive was last listed because of missing messages
}

// withArchive returns the log of a job: with the archive of its source topic, if there is one.
func withArchive(log protocol.Log, o ingest.Options) protocol.Log {
	if o.Archive.Files == "" || o.FromTopic == "" {
		return log
	}
	l := &archived{overlay: overlay{Log: log, topic: o.FromTopic, alone: o.Archive.Alone}, options: o, missing: map[int]int64{}}
	l.source = l
	return l
}

// files lists the archive.
func (l *archived) files(ctx context.Context) (_ *archive.Archive, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.archive == nil {
		l.archive, err = l.options.OpenArchive(ctx)
	}
	return l.archive, err
}

// outdated reports whether an archive that lacks messages of a partition is to be listed again: a sink may have written what the topic has
// deleted to files since. Listing is slow, so it is done once for each first offset of the topic.
func (l *archived) outdated(a *archive.Archive, partition int, first int64) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.archive != a {
		return true
	}
	if before, ok := l.missing[partition]; ok && first <= before {
		return false
	}
	l.missing[partition], l.archive = first, nil
	return true
}

// Before implements protocol.Log.
func (l *archived) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	if topic != l.topic || !l.alone {
		return l.Log.Before(ctx, topic, age)
	}
	partitions, err := l.Partitions(ctx, topic)
	return make([]int64, partitions), err
}

func (l *archived) partitions(ctx context.Context, there int) (int, error) {
	a, err := l.files(ctx)
	if err != nil {
		return 0, err
	}
	if !l.alone && a.Partitions() > there {
		return 0, fmt.Errorf("examples.archive.files have messages of %s[%d], but the topic has %d partitions: are they of another topic, or "+
			"was the topic made again?", l.topic, a.Partitions()-1, there)
	}
	return max(there, a.Partitions()), nil
}

func (l *archived) reach(ctx context.Context, partition int, first, end int64) (from, to int64, err error) {
	a, err := l.files(ctx)
	if err != nil {
		return 0, 0, err
	}
	if l.alone {
		return a.Bounds(ctx, partition)
	}
	archived, ok := a.First(partition)
	switch {
	case !ok:
		return first, end, nil
	case archived >= end:
		return 0, 0, fmt.Errorf("examples.archive.files begin at offset %d of %s[%d], which ends at offset %d: are they of another topic, or "+
			"was the topic made again?", archived, l.topic, partition, end)
	default:
		return min(first, archived), end, nil
	}
}

func (l *archived) rows(partition int, from, to, first int64) protocol.Reader {
	return &archivedRows{archived: l, partition: partition, next: from, to: to, first: first}
}

// archivedRows reads the messages of the archive.
type archivedRows struct {
	*archived
	partition int
	next, to  int64
	first     int64 // offset of the topic

	listed *archive.Archive
	open   *archive.Range // nil: not open
}

// Next implements protocol.Reader.
func (r *archivedRows) Next(ctx context.Context) (m protocol.Message, err error) {
	for {
		if r.open == nil {
			if r.listed, err = r.files(ctx); err != nil {
				return m, err
			}
			needed := r.first // the topic has the others
			if r.alone {
				if _, needed, err = r.listed.Bounds(ctx, r.partition); err != nil {
					return m, err
				}
			}
			r.open = r.listed.Range(r.partition, r.next, r.to, needed)
		}
		rows, err := r.open.Next(ctx)
		if err == nil {
			r.next = rows.Offset + int64(rows.Len())
			return messageOf(rows), nil
		}
		gap, missing := errors.AsType[*archive.GapError](err)
		if !missing {
			return m, err
		}
		if !r.outdated(r.listed, r.partition, r.first) {
			if r.next = gap.To; r.options.Archive.OnGap == archive.GapContinue {
				return m, &kafkalog.DeletedError{Topic: r.topic, Partition: r.partition, Wanted: gap.From, First: gap.To, End: r.to}
			}
			return m, gap
		}
		if err := r.open.Close(); err != nil {
			return m, err
		}
		r.open, r.next = nil, gap.From
	}
}

// messageOf returns the messages that rows were, or the one with its copies.
func messageOf(rows *archive.Rows) protocol.Message {
	value, decoded := rows.Value(0)
	m := protocol.Message{Message: wire.Message{Key: rows.Key(0), Value: value}, Offset: rows.Offset, File: rows.File, Changed: rows.Changed}
	if decoded != nil || rows.Len() > 1 {
		m.Rows = archivedMessages{rows}
	}
	if at := rows.Time(0); at != 0 {
		m.Time = time.UnixMilli(at)
	}
	for _, c := range slices.Backward(rows.Copies) {
		of := messageOf(c)
		of.Copy, m.Copy = m.Copy, &of
	}
	return m
}

// archivedMessages are the messages that rows were.
type archivedMessages struct{ *archive.Rows }

// Part implements protocol.Rows.
func (r archivedMessages) Part(from, to int) protocol.Message { return messageOf(r.Cut(from, to)) }

// Close implements protocol.Reader.
func (r *archivedRows) Close() error {
	if r.open == nil {
		return nil
	}
	return r.open.Close()
}
