package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const gapRecords = 200_000

// testGaps reads over 200,000 records of aborted transactions in the middle of a partition, and as many at its end, where
// markers come last. Their number does not determine the number of fetches, and a range ends at its end.
func testGaps(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	must(l.Append(ctx, topic, 0, numberedUpTo(2, 0)...))(t)
	client := foreign(t, l, kgo.TransactionalID(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(gapRecords))
	abort := func(records int) {
		t.Helper()
		noError(t, client.BeginTransaction())
		var failure error
		for range records {
			client.Produce(ctx, &kgo.Record{Topic: topic, Value: []byte("aborted")}, func(_ *kgo.Record,
				err error) {
				failure = errors.Join(failure, err)
			})
		}
		noError(t, client.Flush(ctx))
		noError(t, failure)
		noError(t, client.EndTransaction(ctx, kgo.TryAbort))
	}
	abort(gapRecords)
	middle := must(l.Append(ctx, topic, 0, numbered(2, 0)))(t)
	abort(gapRecords)
	for range 100 { // consecutive markers
		abort(1)
	}
	noError(t, client.BeginTransaction())
	noError(t, client.EndTransaction(ctx, kgo.TryCommit))
	_, end, err := l.Bounds(ctx, topic, 0)
	noError(t, err)
	if middle < gapRecords || end < middle+gapRecords {
		t.Fatalf("the message in the middle is at %d of %d", middle, end)
	}
	for _, c := range []struct {
		from, to int64
		want     []string
	}{{0, end, numbers(0, 3)}, {2, middle, []string{}}, {2, middle + 1, numbers(2, 3)}, {middle + 1, end, []string{}},
		{middle - 1, middle, []string{}},
		{end - 1, end, []string{}}, {end - 2, end, []string{}}, {end - gapRecords/2, end - 1, []string{}}} {
		began := time.Now()
		r := l.Range(topic, 0, c.from, c.to)
		fetches, got := 0, []string{}
		for err == nil {
			var m Message
			if m, err = r.Next(ctx); err == nil {
				got = append(got, number(m))
			}
		}
		noError(t, r.Close())
		if err != io.EOF || !slices.Equal(got, c.want) {
			t.Errorf("[%d, %d): %v, %v, want %v", c.from, c.to, got, err, c.want)
		}
		err = nil
		t.Logf("[%d, %d): %v", c.from, c.to, time.Since(began))

		// The same manually, to count the fetches: as many as the bytes require, and one more.
		leader := must(l.leader(ctx, topic, 0))(t)
		for s := (&source{log: l, topicPartition: topicPartition{topic, 0}, position: c.from, to: c.to}); s.position < s.to; fetches++ {
			before := s.position
			found := must(l.fetch(ctx, leader, pollTime, fetchBytes, &s.buffer, s))(t)
			must(s.accept(ctx, found[0]))(t)
			if s.position == before {
				t.Fatalf("a fetch at %d does not move", before)
			}
		}
		if most := 2 + int(c.to-c.from)*40/fetchBytes; fetches > most {
			t.Errorf("[%d, %d) takes %d fetches", c.from, c.to, fetches)
		}
	}
	f := l.Follow(topic, 0, 2)
	defer f.Close()
	if m, err := f.Next(ctx); number(m) != "2" || err != nil {
		t.Errorf("a follower gets %v, %v", m, err)
	}
	next := make(chan string)
	go func() {
		m, err := f.Next(ctx)
		next <- fmt.Sprint(number(m), err)
	}()
	must(l.Append(context.WithoutCancel(ctx), topic, 0, numbered(3, 0)))(t)
	if got := <-next; got != "3<nil>" {
		t.Errorf("a follower gets %s", got)
	}
}
