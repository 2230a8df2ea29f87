package source

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// partitionReader reads a range of a partition.
type partitionReader struct {
	topic     string
	partition int
	rows      bool
	next, to  int64
	reader    protocol.Reader
	head      protocol.Message
	time      int64 // latest timestamp so far
}

// inOrder processes the messages of partitions in timestamp order.
func (f *Feed) inOrder(ctx context.Context, readers []*partitionReader) error {
	defer func() {
		for _, r := range readers {
			r.close()
		}
	}()
	var open []*partitionReader
	read := func(r *partitionReader) error {
		more, err := f.readHead(ctx, r)
		if more {
			open = append(open, r)
		}
		return err
	}
	for _, r := range readers {
		if err := read(r); err != nil {
			return err
		}
	}
	for len(open) > 0 {
		first := 0
		for i, r := range open {
			if r.before(open[first]) {
				first = i
			}
		}
		r := open[first]
		open = slices.Delete(open, first, first+1)
		if err := f.handle(ctx, r.topic, r.partition, r.head); err != nil {
			return err
		}
		if err := read(r); err != nil {
			return err
		}
	}
	return nil
}

// before reports whether the next message of a partition precedes that of another one.
func (r *partitionReader) before(other *partitionReader) bool {
	switch {
	case r.time != other.time:
		return r.time < other.time
	case r.rows != other.rows:
		return r.rows
	}
	return r.partition < other.partition
}

func (r *partitionReader) close() {
	if r.reader != nil {
		_ = r.reader.Close() // only read from
		r.reader = nil
	}
}

// skip continues at an offset, before which messages are deleted.
func (f *Feed) skip(r *partitionReader, first int64) {
	if first = min(first, r.to); first > r.next && r.next > 0 {
		f.Recorder.Record(event.Lost{Topic: r.topic, Partition: r.partition, From: r.next, To: first})
	}
	r.next = max(r.next, first)
	r.close()
}

// readHead reads the next message of a partition that is not deleted; false: there is none.
func (f *Feed) readHead(ctx context.Context, r *partitionReader) (bool, error) {
	for r.next < r.to {
		if r.reader == nil {
			first, _, err := f.Log.Bounds(ctx, r.topic, r.partition)
			if err != nil {
				return false, err
			}
			if f.skip(r, first); r.next >= r.to {
				return false, nil
			}
			r.reader = f.Log.Range(r.topic, r.partition, r.next, r.to)
		}
		m, err := r.reader.Next(ctx)
		if err == nil {
			r.head, r.next, r.time = m, m.Offset+1, max(r.time, outcome.TimeOf(m.Time))
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
		if !ok || deleted.Wanted >= deleted.First {
			return false, err
		}
		f.skip(r, deleted.First)
	}
	return false, nil
}
