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
	"github.com/stagewise/stagewise/schemas/wire"
)

// archived is a log on which the source topic also has the messages of its archive. What the archive lacks between its messages
// and those of the topic is an *[archive.GapError], or, as configured, is like messages that the topic has deleted.
type archived struct {
	overlay
	options ingest.Options

	lock    sync.Mutex
	archive *archive.Archive // nil: not listed yet
}

// withArchive returns the log of a job: with the archive of its source topic, if there is one.
func withArchive(log protocol.Log, o ingest.Options) protocol.Log {
	if o.Archive.Files == "" || o.FromTopic == "" {
		return log
	}
	l := &archived{overlay: overlay{Log: log, topic: o.FromTopic, alone: o.Archive.Alone}, options: o}
	l.source = l
	return l
}

// files lists the archive, again if the last list is an outdated one.
func (l *archived) files(ctx context.Context, outdated *archive.Archive) (_ *archive.Archive, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.archive == outdated {
		l.archive, err = l.options.OpenArchive(ctx)
	}
	return l.archive, err
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
	a, err := l.files(ctx, nil)
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
	a, err := l.files(ctx, nil)
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
	again  bool           // it was listed after the topic began with first
	open   *archive.Range // nil: not open
}

// Next implements protocol.Reader.
func (r *archivedRows) Next(ctx context.Context) (m protocol.Message, err error) {
	for {
		if r.open == nil {
			if r.listed, err = r.files(ctx, r.listed); err != nil {
				return m, err
			}
			r.open = r.listed.Range(r.partition, r.next, r.to)
		}
		row, err := r.open.Next(ctx)
		gap, missing := errors.AsType[*archive.GapError](err)
		switch {
		case err == nil:
			r.next = row.Offset + 1
			return *messageOf(row), nil
		case err == io.EOF && !r.alone: // the others are on the topic
			gap = &archive.GapError{Topic: r.topic, Partition: r.partition, From: r.next, To: r.to}
		case !missing:
			return m, err
		}
		gap.From, gap.To = max(gap.From, r.next), min(gap.To, r.first)
		if gap.From >= gap.To {
			if err == io.EOF {
				return m, err
			}
			continue
		}
		if r.again {
			if r.next = gap.To; r.options.Archive.OnGap == archive.GapContinue {
				return m, &kafkalog.DeletedError{Topic: r.topic, Partition: r.partition, Wanted: gap.From, First: gap.To, End: r.to}
			}
			return m, gap
		}
		if err := r.open.Close(); err != nil { // a sink may have written what the topic has deleted to files since they were listed
			return m, err
		}
		r.open, r.next, r.again = nil, gap.From, true
	}
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

// Close implements protocol.Reader.
func (r *archivedRows) Close() error {
	if r.open == nil {
		return nil
	}
	return r.open.Close()
}
