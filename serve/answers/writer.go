package answers

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/wire"
)

const (
	// bufferBytes is the maximum size of buffered messages: some seconds of a server at full load.
	bufferBytes = 64 << 20
	// messageBytes is the overhead of a message besides its key and value.
	messageBytes = 128
	// maxMessage is the maximum size of a message: 900 KB, because brokers accept 1 MB including overhead.
	maxMessage = 900_000
	// noticeEvery is the minimum interval between reports of dropped answers.
	noticeEvery = time.Minute
)

// Log is the log to which answers are written, such as *kafkalog.Log.
type Log interface {
	// Partitions returns the number of partitions of a topic.
	Partitions(ctx context.Context, topic string) (int, error)
	// Append appends messages to a partition, and retries until that succeeds, fails permanently, or ctx ends.
	Append(ctx context.Context, topic string, partition int, messages ...kafkalog.Message) (base int64, err error)
}

// Writer writes answers to a topic in a goroutine of its own. Create writers with [Open].
type Writer struct {
	options   Options
	log       Log
	notice    func(text string)
	now       func() time.Time
	partition func(key []byte) int
	limit     int // maximum size of buffered messages

	written, dropped prometheus.Counter

	mutex   sync.Mutex
	waiting []kafkalog.Message
	bytes   int // size of messages that are buffered or being written
	closed  bool
	wake    chan struct{} // signals that there may be work
	lost    int           // number of rows dropped since the last notice
	reason  string        // reason for the last one
	told    time.Time     // time of the last notice

	ended  chan struct{} // closed when everything is written
	cancel context.CancelFunc
}

// Open returns a writer to an existing topic. notice is called concurrently with messages for the operator.
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

// Begin returns the request with an id, and with the trace in its headers; nil if it is not sampled, or if w is nil.
func (w *Writer) Begin(id string, h http.Header) *Request {
	if w == nil || !w.options.samples(id) {
		return nil
	}
	return &Request{writer: w, id: id, trace: wire.ValidTrace(h.Get(wire.HeaderTrace))}
}

// put passes messages to the writer. It never blocks.
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

// drop counts rows that are not written, and reports them at most once per noticeEvery. The caller has locked the mutex.
func (w *Writer) drop(rows int, reason string) {
	w.dropped.Add(float64(rows))
	w.lost, w.reason = w.lost+rows, reason
	if now := w.now(); now.Sub(w.told) >= noticeEvery {
		w.told = now
		go w.tell(w.lost, reason) // logging may be slow
		w.lost = 0
	}
}

func (w *Writer) tell(rows int, reason string) {
	w.notice(fmt.Sprintf("answers to %d rows were not written to %s: %s", rows, w.options.Topic, reason))
}

// drain waits for messages, and removes and returns all of the buffer. It returns none once the writer is closed.
func (w *Writer) drain(ctx context.Context) []kafkalog.Message {
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

// run writes buffered messages until the writer is closed. The batch size grows with the backlog.
func (w *Writer) run(ctx context.Context) {
	defer close(w.ended)
	for {
		messages := w.drain(ctx)
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

// append writes messages to a partition, with retries while brokers are unavailable.
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

// Close writes the buffered messages, and returns when that is done or ctx ends, with an error if rows were dropped.
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
