package source

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// passEvery is the interval of checks for silent partitions.
const passEvery = 5 * time.Second

// pass advances silent partitions to the time that the others have passed: see package outcome.
func (f *Feed) pass(ctx context.Context) error {
	j := f.joining
	j.passed = f.Clock.Now()
	idle := f.Job.Examples.Outcome.IdleAfter().Milliseconds()
	topic := f.Job.Examples.Outcome.Topic
	latest, err := f.latest(ctx, topic)
	if err != nil {
		return err
	}
	latestRow, err := f.latest(ctx, f.Topic)
	if err != nil {
		return err
	}
	// Whether a partition is read to its end is checked after the times of the others: earlier messages were then read.
	for _, side := range []struct {
		topic  string
		rows   bool
		joins  map[int]*outcome.Join // by partition
		latest int64
	}{{topic, false, j.of, latest}, {f.Topic, true, j.rows, latestRow}} {
		for _, n := range slices.Sorted(maps.Keys(side.joins)) {
			join, next := side.joins[n], j.readTo[n]
			if side.rows {
				next = f.state.Position(n).Next
				if m, ok := f.read[n]; ok {
					next = m.Offset + 1
				}
			}
			if side.latest == outcome.Never || side.latest-idle <= join.Time(side.rows, n) {
				continue
			}
			ended, err := f.ended(ctx, side.topic, n, next)
			if err != nil {
				return err
			}
			if ended {
				join.Pass(side.rows, n, side.latest-idle)
			}
		}
	}
	for _, join := range j.joins {
		if err := join.Advance(f.decide(ctx)); err != nil {
			return err
		}
		deadline, waits := join.FirstDeadline()
		if waits && latest < deadline && latestRow > deadline+idle && !f.untilEnd && f.silent.CompareAndSwap(false, true) {
			event.Notice(f.Recorder, "rows of %s wait for outcomes longer than examples.outcome.within, because %s has no later "+
				"message: outcomes may still arrive. A message with an empty value is enough to continue", f.Topic, topic)
		}
	}
	f.countJoined()
	return f.afterEvent(ctx)
}

// lastOffsets is the number of offsets at the end of a partition that are searched for a message.
const lastOffsets = 16

// latest returns the newest timestamp in a topic's partitions.
func (f *Feed) latest(ctx context.Context, topic string) (time int64, err error) {
	time = outcome.Never
	spans, err := f.Log.Spans(ctx, topic)
	if err != nil {
		return time, err
	}
	for _, s := range spans {
		err := f.Between(ctx, topic, s.Partition, max(s.From, s.To-lastOffsets), s.To, func(m protocol.Message) error {
			time = max(time, outcome.TimeOf(m.Time))
			return nil
		})
		if err != nil && !errors.As(err, new(*kafkalog.DeletedError)) {
			return time, err
		}
	}
	return time, nil
}

// ended reports whether a partition has no messages from an offset on.
func (f *Feed) ended(ctx context.Context, topic string, partition int, from int64) (bool, error) {
	_, end, err := f.Log.Bounds(ctx, topic, partition)
	if err != nil || from >= end {
		return err == nil, err
	}
	r := f.Log.Range(topic, partition, from, end)
	defer r.Close()
	if _, err = r.Next(ctx); err == io.EOF {
		return true, nil
	}
	if errors.As(err, new(*kafkalog.DeletedError)) {
		return false, nil
	}
	return false, err
}

// noticeWaiting reports the number of rows that still wait at the end.
func (f *Following) noticeWaiting() {
	waits := int64(0)
	for n := range f.waits {
		waits += f.waits[n].Load()
	}
	if waits > 0 {
		event.Notice(f.Recorder, "%s of %s without an outcome yet: %s has no message later than their time plus "+
			"examples.outcome.within. They become examples when the topics are read further", english.Plural(int(waits), "message", ""), f.Topic,
			f.Job.Examples.Outcome.Topic)
	}
}
