package answers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

const (
	// bufferBytes is how many bytes of messages wait at most: some seconds of a server that answers as fast as it can.
	bufferBytes = 64 << 20
	// messageBytes is what a message takes beside its key and value.
	messageBytes = 128
	// maxMessage is how large a message may be: 900 KB, as brokers take 1 MB with all that is around it.
	maxMessage = 900_000
	// noticeEvery is how often dropped answers are reported at most.
	noticeEvery = time.Minute
)

// Log is where answers are written. *kafkalog.Log is one.
type Log interface {
	// Partitions returns how many partitions the topic has.
	Partitions(ctx context.Context, topic string) (int, error)
	// Append writes messages to the end of a partition, and retries until that succeeds, cannot succeed, or ctx ends.
	Append(ctx context.Context, topic string, partition int, messages ...kafkalog.Message) (base int64, err error)
}

// Writer writes answers to a topic, from a goroutine of its own. [Open] makes writers.
type Writer struct {
	options   Options
	log       Log
	notice    func(text string)
	now       func() time.Time
	partition func(key []byte) int
	limit     int // bytes that may wait

	written, dropped prometheus.Counter

	mutex   sync.Mutex
	waiting []kafkalog.Message
	bytes   int // of those that wait, and of those that are being written
	closed  bool
	wake    chan struct{} // has an element if there may be something to do
	lost    int           // rows that were dropped since the last notice
	reason  string        // why the last was
	told    time.Time     // when the last notice was

	ended  chan struct{} // closed when everything is written
	cancel context.CancelFunc
}

// Open returns a writer to a topic that exists. notice is called from any goroutine with what an operator should know.
func Open(ctx context.Context, o Options, log Log, register prometheus.Registerer, notice func(text string)) (*Writer, error) {
	partitions, err := log.Partitions(ctx, o.Topic)
	if err != nil {
		return nil, fmt.Errorf("write answers to %s (serve.answers.topic): %w", o.Topic, err)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "stagewise", Name: name, Help: help})
	}
	w := &Writer{
		options: o, log: log, notice: notice, now: time.Now, limit: bufferBytes, partition: kafkalog.Partitioner(partitions),
		written: counter("answers_written_total", "Rows whose answers were written to serve.answers.topic."),
		dropped: counter("answers_dropped_total", "Rows whose answers were not written: the buffer was full, or the brokers refused them."),
		wake:    make(chan struct{}, 1), ended: make(chan struct{}),
	}
	register.MustRegister(w.written, w.dropped)
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go w.run(ctx)
	return w, nil
}

// Begin returns the request with an id; nil if it is not sampled, or if w is nil.
func (w *Writer) Begin(id string) *Request {
	if w == nil || !w.options.samples(id) {
		return nil
	}
	return &Request{writer: w, id: id}
}

// put gives messages to the writer. It never waits.
func (w *Writer) put(messages []kafkalog.Message) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i, m := range messages {
		size := messageBytes + len(m.Key) + len(m.Value)
		switch {
		case w.closed:
			w.drop(len(messages)-i, "the server is shutting down")
			return
		case len(m.Value) > maxMessage:
			w.drop(1, fmt.Sprintf("a row has %d bytes, and a message at most %d", len(m.Value), maxMessage))
			continue
		case w.bytes+size > w.limit:
			w.drop(len(messages)-i, fmt.Sprintf("%d bytes of answers wait for the brokers", w.bytes))
			return
		}
		w.waiting, w.bytes = append(w.waiting, m), w.bytes+size
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// drop counts rows that are not written, and says so if it has not for a while. The caller has locked the mutex.
func (w *Writer) drop(rows int, reason string) {
	w.dropped.Add(float64(rows))
	w.lost, w.reason = w.lost+rows, reason
	if now := w.now(); now.Sub(w.told) >= noticeEvery {
		w.told = now
		go w.tell(w.lost, reason) // whoever logs may be slow
		w.lost = 0
	}
}

func (w *Writer) tell(rows int, reason string) {
	w.notice(fmt.Sprintf("answers to %d rows were not written to %s: %s", rows, w.options.Topic, reason))
}

// take waits for messages, and returns all that wait. There are none once the writer is closed.
func (w *Writer) take(ctx context.Context) []kafkalog.Message {
	for {
		w.mutex.Lock()
		messages, closed := w.waiting, w.closed
		w.waiting = nil
		w.mutex.Unlock()
		if len(messages) > 0 || closed {
			return messages
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// run writes what waits until the writer is closed. The more waits, the more is written at a time.
func (w *Writer) run(ctx context.Context) {
	defer close(w.ended)
	for {
		messages := w.take(ctx)
		if len(messages) == 0 {
			return
		}
		byPartition := map[int][]kafkalog.Message{}
		for _, m := range messages {
			p := w.partition(m.Key)
			byPartition[p] = append(byPartition[p], m)
		}
		for p, list := range byPartition {
			w.append(ctx, p, list)
		}
	}
}

// append writes messages to a partition. While brokers do not answer it tries again.
func (w *Writer) append(ctx context.Context, partition int, messages []kafkalog.Message) {
	_, err := w.log.Append(ctx, w.options.Topic, partition, messages...)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, m := range messages {
		w.bytes -= messageBytes + len(m.Key) + len(m.Value)
	}
	if err != nil {
		w.drop(len(messages), err.Error()) // some may be written
		return
	}
	w.written.Add(float64(len(messages)))
}

// Close writes what waits, and returns when that is done or ctx ends. Then it returns an error that says how many rows were dropped.
func (w *Writer) Close(ctx context.Context) error {
	w.mutex.Lock()
	w.closed = true
	w.mutex.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
	}
	w.cancel()
	<-w.ended
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.lost += len(w.waiting)
	w.dropped.Add(float64(len(w.waiting)))
	w.waiting = nil
	if w.lost > 0 {
		return fmt.Errorf("answers to %d rows were not written to %s: %s", w.lost, w.options.Topic, w.reason)
	}
	return nil
}
