package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// samples reports whether the answers to a request are written. The decision depends only on the id, so all servers agree.
func (o AnswersOptions) samples(id string) bool {
	if o.Sample == 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	// FNV mixes the last bytes poorly into the high bits.
	return float64(wire.Mix(h.Sum64())) < o.Sample*math.MaxUint64
}

// headerID is the header with the id of a request and its response.
const headerID = "X-Request-Id"

// isID reports whether a text is a valid request id: printable ASCII without spaces.
func isID(text string) bool {
	const longest = 200
	return text != "" && len(text) <= longest && strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// mostProbableWritten is the maximum number of probabilities in a message.
const mostProbableWritten = 10

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

// AnswersLog is the log to which answers are written, such as *kafkalog.Log.
type AnswersLog interface {
	// Partitions returns the number of partitions of a topic.
	Partitions(ctx context.Context, topic string) (int, error)
	// Append appends messages to a partition, and retries until that succeeds, fails permanently, or ctx ends.
	Append(ctx context.Context, topic string, partition int, messages ...kafkalog.Message) (base int64, err error)
}

// answersWriter writes answers to a topic in a goroutine of its own: outcomes can be joined later, and models be trained on served
// predictions. A server never waits for the topic: messages wait in a buffer of limited size. Those that do not fit are dropped, counted
// and reported.
type answersWriter struct {
	options   AnswersOptions
	log       AnswersLog
	notice    func(text string)
	partition func(key []byte) int
	limit     int // maximum size of buffered messages

	written, dropped prometheus.Counter

	mutex   sync.Mutex
	changed *sync.Cond // messages wait, or the writer is closed
	waiting []kafkalog.Message
	bytes   int // size of messages that are buffered or being written
	closed  bool
	lost    int       // number of rows dropped since the last notice
	reason  string    // reason for the last one
	told    time.Time // time of the last notice

	writing sync.WaitGroup
	cancel  context.CancelFunc
}

// openAnswers returns a writer to an existing topic. notice is called concurrently with messages for the operator.
func openAnswers(ctx context.Context, o AnswersOptions, log AnswersLog, register promauto.Factory,
	notice func(text string)) (*answersWriter, error) {
	partitions, err := log.Partitions(ctx, o.Topic)
	if err != nil {
		return nil, fmt.Errorf("write answers to %s (serve.answers.topic): %w", o.Topic, err)
	}
	w := &answersWriter{
		options: o, log: log, notice: notice, limit: bufferBytes, partition: kafkalog.Partitioner(partitions),
		written: counter(register, "answers_written_total", "Rows whose answers were written to serve.answers.topic."),
		dropped: counter(register, "answers_dropped_total",
			"Rows whose answers were not written: the buffer was full, or the brokers refused them."),
	}
	w.changed = sync.NewCond(&w.mutex)
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.writing.Go(func() { w.run(ctx) })
	return w, nil
}

// record collects the answers to a request until they are sent.
type record struct {
	writer   *answersWriter // nil: the request is not sampled
	id       string
	trace    string // header traceparent; "": none
	messages []kafkalog.Message
	bytes    int
}

// begin returns the record of a request with an id, and with the trace in its headers.
func (w *answersWriter) begin(id string, h http.Header) record {
	if w == nil || !w.options.samples(id) {
		return record{}
	}
	return record{writer: w, id: id, trace: wire.ValidTrace(h.Get(wire.HeaderTrace))}
}

// add adds the next row, which is row i of the last n of an answer. features appends its features as JSON.
func (r *record) add(a *answer, i, n int, features func(dst []byte) []byte) {
	id, _ := json.Marshal(r.id) // a string can be encoded
	text := fmt.Appendf(nil, `{"request":%s,"row":%d,"version":%d,"features":`, id, len(r.messages), a.Manifest.Version)
	text = a.appendPrediction(append(features(text), `,"prediction":{`...), i, n)
	m := kafkalog.Message{Value: append(text, "}}"...)}
	if r.trace != "" {
		m.Headers = []kafkalog.Header{{Key: wire.HeaderTrace, Value: []byte(r.trace)}}
	}
	r.messages, r.bytes = append(r.messages, m), r.bytes+len(m.Value)
}

// send passes the rows to the writer. The key of a message is the request id, followed by the row number if the request has several rows.
func (r *record) send() {
	for i := range r.messages {
		key := r.id
		if len(r.messages) > 1 {
			key += "/" + strconv.Itoa(i)
		}
		r.messages[i].Key = []byte(key)
	}
	if len(r.messages) > 0 {
		r.writer.put(r.messages)
	}
}

// appendPrediction appends the members of the prediction in a message, of row i of the last n.
func (a *answer) appendPrediction(dst []byte, i, n int) []byte {
	member := func(i, class int, number float64, bits int) {
		name := a.quoted[class]
		if dst = appendComma(dst, i == 0); name[0] != '"' { // an integer
			dst = append(append(append(dst, '"'), name...), '"')
		} else {
			dst = append(dst, name...)
		}
		dst = value.AppendNumber(append(dst, ':'), number, bits)
	}
	k, at := len(a.Labels()), a.rows-n+i
	if a.predictsNumbers() {
		dst = append(dst, `"values":{`...)
		for target, number := range a.numbers[at*k:][:k] {
			member(target, target, number, 64)
		}
		return append(dst, '}')
	}
	if a.givesSeveral() {
		dst = append(a.appendGiven(append(dst, `"labels":[`...), at, false), ']')
	} else {
		dst = a.appendLabel(append(dst, `"label":`...), at, false)
	}
	dst = append(dst, `,"probabilities":{`...)
	probabilities := a.last[i*k:][:k]
	a.order = mostProbable(a.order, probabilities, cmp.Or(min(a.top, mostProbableWritten), mostProbableWritten))
	for j, class := range a.order {
		member(j, int(class), float64(probabilities[class]), 32)
	}
	return append(dst, '}')
}

// put passes messages to the writer. It never blocks.
func (w *answersWriter) put(messages []kafkalog.Message) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	defer w.changed.Signal()
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
}

// drop counts rows that are not written, and reports them at most once per noticeEvery. The caller has locked the mutex.
func (w *answersWriter) drop(rows int, reason string) {
	w.dropped.Add(float64(rows))
	w.lost, w.reason = w.lost+rows, reason
	if now := time.Now(); now.Sub(w.told) >= noticeEvery {
		go w.notice(w.losses().Error()) // logging may be slow
		w.told, w.lost = now, 0
	}
}

// losses returns the error of rows that are not written. The caller has locked the mutex.
func (w *answersWriter) losses() error {
	return fmt.Errorf("answers to %d rows were not written to %s: %s", w.lost, w.options.Topic, w.reason)
}

// run writes buffered messages until the writer is closed. The batch size grows with the backlog.
func (w *answersWriter) run(ctx context.Context) {
	for closed := false; !closed; {
		byPartition := map[int][]kafkalog.Message{}
		w.mutex.Lock()
		for len(w.waiting) == 0 && !w.closed {
			w.changed.Wait()
		}
		for _, m := range w.waiting {
			p := w.partition(m.Key)
			byPartition[p] = append(byPartition[p], m)
		}
		w.waiting, closed = nil, w.closed
		w.mutex.Unlock()
		for p, list := range byPartition {
			w.append(ctx, p, list)
		}
	}
}

// append writes messages to a partition, with retries while brokers are unavailable.
func (w *answersWriter) append(ctx context.Context, partition int, messages []kafkalog.Message) {
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

// close writes the buffered messages, and returns when that is done or ctx ends, with an error if rows were dropped.
func (w *answersWriter) close(ctx context.Context) error {
	w.mutex.Lock()
	w.closed = true
	w.mutex.Unlock()
	w.changed.Signal()
	defer context.AfterFunc(ctx, w.cancel)()
	w.writing.Wait()
	w.cancel()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.lost > 0 {
		return w.losses()
	}
	return nil
}

// WriteAnswers makes the server write its answers to the topic in its options. It must be called before Serve, which ends
// it.
func (s *Server) WriteAnswers(ctx context.Context, log AnswersLog) (err error) {
	s.answers, err = openAnswers(ctx, s.options.Answers, log, s.register, s.notice)
	return err
}

// closeAnswers writes the buffered answers after the last response.
func (s *Server) closeAnswers(ctx context.Context) {
	if s.answers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	if err := s.answers.close(ctx); err != nil {
		s.notice(err.Error())
	}
}

// record returns the record of the answers to a request, and sets the id in the response.
func (s *Server) record(w http.ResponseWriter, r *http.Request) (none record, err error) {
	if s.answers == nil {
		return none, nil
	}
	id := r.Header.Get(headerID)
	if id == "" {
		id = rand.Text()
	}
	if !isID(id) {
		return none, refuse(http.StatusBadRequest, "%s %.40q: expected up to 200 printable ASCII characters without spaces", headerID, id)
	}
	w.Header().Set(headerID, id)
	return s.answers.begin(id, r.Header), nil
}
