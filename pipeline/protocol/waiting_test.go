package protocol

import (
	"context"
	"io"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// sparseLog is a topic whose partitions have messages at some of their offsets.
type sparseLog struct {
	Log
	ends     []int64
	messages []map[int64]bool
	reads    int
}

func (l *sparseLog) Spans(context.Context, string) (spans []coverage.Span, err error) {
	for p, end := range l.ends {
		spans = append(spans, coverage.Span{Partition: p, From: 2, To: end})
	}
	return spans, nil
}

func (l *sparseLog) Range(_ string, partition int, from, to int64) Reader {
	l.reads++
	return &sparseReader{l.messages[partition], from, to}
}

type sparseReader struct {
	messages map[int64]bool
	at, to   int64
}

func (r *sparseReader) Next(context.Context) (m Message, err error) {
	for ; r.at < r.to; r.at++ {
		if r.messages[r.at] {
			m.Offset = r.at
			r.at++
			return m, nil
		}
	}
	return m, io.EOF
}

func (r *sparseReader) Close() error { return nil }

// What waits are the offsets behind what was read, but for a tail without a message, as a transaction leaves it: that
// is looked at once it stays.
func TestWaiting(t *testing.T) {
	log := &sparseLog{ends: []int64{10, 6, 2}, messages: []map[int64]bool{{8: true}, {3: true}, {}}}
	next := []int64{8, 4, 0}
	waiting := NewWaiting(log, "events")
	expect := func(when string, want int64, reads int) {
		t.Helper()
		got, partitions, err := waiting.Count(t.Context(), func(p int) int64 { return next[p] })
		if err != nil || got != want || partitions != 3 || log.reads != reads {
			t.Errorf("%s: %d of %d partitions wait after %d reads, error %v; expected %d of 3 after %d", when, got, partitions, log.reads,
				err, want, reads)
		}
	}
	expect("at first", 2+2, 0)
	expect("when it stays", 2, 2) // offset 9 has no message, but 8 has; 4 and 5 have none
	expect("when it still stays", 2, 2)
	next[0] = 10
	expect("when all is read", 0, 2)
	log.ends[1] = 7
	expect("when more comes", 3, 2)
}

// What the partitions of the examples say of a topic is what those say that have read it last.
func TestMerge(t *testing.T) {
	at := func(partition int, next int64) schemas.TopicPosition {
		return schemas.TopicPosition{Partition: partition, Next: next}
	}
	all := MergeTopicProgress([]TopicProgress{
		{Attempt: 1, Positions: []schemas.TopicPosition{at(0, 90)}}, // before the topic was made anew
		{Attempt: 2, Partitions: 2, Positions: []schemas.TopicPosition{at(0, 3), at(1, 7)}},
		{Attempt: 2, Partitions: 2, Positions: []schemas.TopicPosition{at(0, 5)}},
		{},
	})
	if all.Attempt != 2 || all.Partitions != 2 || all.Position(0).Next != 5 || all.Position(1).Next != 7 || all.Position(2).Next != 0 {
		t.Errorf("%+v", all)
	}
	if none := MergeTopicProgress(make([]TopicProgress, 3)); none.Attempt != 1 || len(none.Positions) > 0 {
		t.Errorf("nothing was read: %+v", none)
	}
}
