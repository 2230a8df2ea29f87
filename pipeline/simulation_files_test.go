package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// simFileRows is how many rows a file has that is ingested. They are one message: ingest writes to each partition in a
// goroutine of its own, whose order is not that of the schedule.
const simFileRows = 6

// withFiles makes of the scenario of a chain whose topic is followed one whose examples also come from two files, which
// two processes ingest.
func (sc *scenario) withFiles(t testing.TB) *scenario {
	t.Helper()
	for n := range 2 {
		sc.csv = append(sc.csv, rings(simFileRows, 2, 2, uint64(3000+n)).writeCSV(t, t.TempDir(), fmt.Sprint("file", n, ".csv")))
	}
	return sc
}

// startIngester starts a process that ingests the files. It ends once they are sealed, or if an operator has them forgotten.
func (s *simulation) startIngester(i int) {
	var a *actor
	a = s.start(fmt.Sprint("ingester ", i), func() {
		if a.err != nil && !errors.As(a.err, new(*source.ForgottenError)) {
			s.startIngester(i)
		}
	}, func(a *actor) error {
		job, p := s.job, s.pipeline(a)
		job.Examples.Train = s.csv
		log := &handedLog{Log: p.Log, calls: make(chan handedCall)}
		p.Log = log
		return log.serve(func() error {
			_, err := source.Files(context.Background(), p, job, topics.ExamplesRetention{}, event.Ignore{})
			return err
		})
	})
	a.follower = true
}

// handedLog is the log of an actor for what calls it from other goroutines: it hands the calls to the coroutine of the actor.
type handedLog struct {
	protocol.Log
	calls chan handedCall
}

// handedCall is a call, and a channel that is closed when it is made.
type handedCall struct {
	do   func()
	made chan struct{}
}

// serve does something in another goroutine, and makes its calls until it has ended.
func (l *handedLog) serve(do func() error) error {
	ended := make(chan error)
	go func() { ended <- do() }()
	for {
		select {
		case c := <-l.calls:
			c.do()
			close(c.made)
		case err := <-ended:
			return err
		}
	}
}

// call has the coroutine make a call.
func (l *handedLog) call(do func()) {
	c := handedCall{do, make(chan struct{})}
	l.calls <- c
	<-c.made
}

func (l *handedLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (base int64, err error) {
	l.call(func() { base, err = l.Log.Append(ctx, topic, partition, messages...) })
	return base, err
}

func (l *handedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	l.call(func() { first, end, err = l.Log.Bounds(ctx, topic, partition) })
	return first, end, err
}

func (l *handedLog) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	l.call(func() { spans, err = l.Log.Spans(ctx, topic) })
	return spans, err
}

func (l *handedLog) Before(ctx context.Context, topic string, age time.Duration) (offsets []int64, err error) {
	l.call(func() { offsets, err = l.Log.Before(ctx, topic, age) })
	return offsets, err
}

func (l *handedLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	return &handedReader{l.Log.Range(topic, partition, from, to), l}
}

// handedReader is a reader of a [handedLog].
type handedReader struct {
	protocol.Reader
	log *handedLog
}

func (r *handedReader) Next(ctx context.Context) (m protocol.Message, err error) {
	r.log.call(func() { m, err = r.Reader.Next(ctx) })
	return m, err
}
