package topics

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	// rows yields messages of a partition. Those from first on, which the topic has, may be omitted; the others are complete. An error is
	// a *kafkalog.DeletedError if the source lacks one.
	rows(ctx context.Context, partition int, from, to, first int64) iter.Seq2[protocol.Message, error]
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
func (l *overlay) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	if topic != l.topic {
		return l.Log.Range(ctx, topic, partition, from, to)
	}
	return func(yield func(protocol.Message, error) bool) {
		for next, again := from, true; again; {
			var err error
			next, again, err = l.merge(ctx, partition, next, to, yield)
			if err != nil {
				yield(protocol.Message{}, err)
			}
		}
	}
}

// merge yields the messages of the source, and from the first offset of the topic on also those of the topic, with their copies. It returns
// the offset after the last message yielded; again means that the topic has meanwhile deleted the next ones, which the source may have.
func (l *overlay) merge(ctx context.Context, partition int, from, to int64, yield func(protocol.Message, error) bool) (next int64,
	again bool, err error) {
	first, _, err := l.there(ctx, partition)
	if err != nil {
		return from, false, err
	}
	below := protocol.NewAhead(l.rows(ctx, partition, from, to, first))
	defer below.Stop()
	written := protocol.NewAhead(l.Log.Range(ctx, l.topic, partition, min(max(from, first), to), to))
	defer written.Stop()
	for next = from; ; {
		earlier, err := below.Peek()
		if err != nil {
			return next, false, err
		}
		var there *protocol.Message
		if first < to && (earlier == nil || earlier.Offset >= first) {
			there, err = written.Peek()
			if deleted, ok := errors.AsType[*kafkalog.DeletedError](err); ok && deleted.Wanted < deleted.First {
				return next, true, nil
			}
			if err != nil {
				return next, false, err
			}
		}
		var m protocol.Message
		switch {
		case earlier == nil && there == nil:
			return next, false, nil
		case there == nil:
			m = below.TakeBefore(first)
		case earlier != nil && earlier.Offset < there.Offset: // the topic is compacted
			m = below.TakeBefore(there.Offset)
		default:
			m = written.Take()
			if earlier != nil && earlier.Offset == m.Offset {
				copied := below.Take()
				m.Copy = &copied
			}
		}
		next = m.Offset + int64(m.Len())
		if !yield(m, nil) {
			return next, false, nil
		}
	}
}

// archived is a log on which the source topic also has the messages of its archive. Messages missing between the archive and
// the topic cause an *[archive.GapError] or, if so configured, count as deleted from the topic.
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

// outdated reports whether an archive that lacks messages of a partition must be listed again: a sink may since have written the messages
// that the topic has deleted to files. Listing is slow, so it is done once for each first offset of the topic.
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

func (l *archived) rows(ctx context.Context, partition int, from, to, first int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		for next, again := from, true; again; {
			var err error
			next, again, err = l.readFiles(ctx, partition, next, to, first, yield)
			if err != nil {
				yield(protocol.Message{}, err)
			}
		}
	}
}

// readFiles yields the messages of the archive in its current listing. It returns the offset of the first missing one; again means that
// the archive must be listed again.
func (l *archived) readFiles(ctx context.Context, partition int, from, to, first int64, yield func(protocol.Message, error) bool) (
	next int64, again bool, err error) {
	listed, err := l.files(ctx)
	needed := first // the topic has the others
	if err == nil && l.alone {
		_, needed, err = listed.Bounds(ctx, partition)
	}
	if err != nil {
		return from, false, err
	}
	for rows, err := range listed.Range(ctx, partition, from, to, needed) {
		gap, missing := errors.AsType[*archive.GapError](err)
		switch {
		case missing && l.outdated(listed, partition, first):
			return gap.From, true, nil
		case missing && l.options.Archive.OnGap == archive.GapContinue:
			return gap.To, false, &kafkalog.DeletedError{Topic: l.topic, Partition: partition, Wanted: gap.From, First: gap.To, End: to}
		case err != nil:
			return from, false, err
		case !yield(messageOf(rows), nil):
			return to, false, nil
		}
	}
	return to, false, nil
}

// messageOf returns the messages of rows, or a single message with its copies.
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

// archivedMessages are the messages of rows.
type archivedMessages struct{ *archive.Rows }

// Part implements protocol.Rows.
func (r archivedMessages) Part(from, to int) protocol.Message { return messageOf(r.Cut(from, to)) }
