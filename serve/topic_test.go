package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// topic is a topic in memory. append is called before each write.
type topic struct {
	partitions int
	append     func(ctx context.Context) error

	mutex    sync.Mutex
	messages map[int][]kafkalog.Message
}

func (l *topic) Partitions(context.Context, string) (int, error) { return l.partitions, nil }

func (l *topic) Append(ctx context.Context, name string, partition int, messages ...kafkalog.Message) (int64, error) {
	if l.append != nil {
		if err := l.append(ctx); err != nil {
			return -1, fmt.Errorf("append to %s[%d]: %w", name, partition, err)
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.messages == nil {
		l.messages = map[int][]kafkalog.Message{}
	}
	l.messages[partition] = append(l.messages[partition], messages...)
	return 0, nil
}

// keys returns the keys of a partition, in order.
func (l *topic) keys(partition int) (keys []string) {
	for _, m := range l.messages[partition] {
		keys = append(keys, string(m.Key))
	}
	return keys
}

// openTopic returns a writer, and its reports.
func openTopic(t *testing.T, l *topic) (*answersWriter, func() []string) {
	t.Helper()
	var mutex sync.Mutex
	var notices []string
	w, err := openAnswers(t.Context(), AnswersOptions{Topic: "answers", Sample: 1}, l, prometheus.NewRegistry(), func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		notices = append(notices, text)
	})
	noError(t, err)
	return w, func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(notices)
	}
}

// trace is a valid header traceparent.
const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// answerTo passes a request with a number of rows to a writer.
func answerTo(t *testing.T, w *answersWriter, id string, rows int) {
	t.Helper()
	r := w.begin(id, http.Header{"Traceparent": {map[bool]string{true: trace, false: "none"}[id == "b"]}})
	r.reset()
	for i := range rows {
		addRow(t, r, fmt.Sprintf("[%d]", i))
	}
	r.send()
}

// addRow adds a row with these features to a record.
func addRow(t *testing.T, r *record, features string) {
	t.Helper()
	if r == nil {
		return
	}
	v := &version{Model: newModelOf(t, []string{"no", "yes"}, 7, 2, nil, layout.MissingError)}
	v.quoted = v.LabelType().Values(v.Labels())
	of := &answer{version: v, rows: 1, given: []int32{0}, ends: []int32{0, 1}, last: []float32{0.75, 0.25}}
	r.add(of, 0, 1, func(dst []byte) []byte { return append(dst, features...) })
}

// All answers are on the topic once the writer is closed, in the partitions selected by Kafka's Java client for their
// keys.
func TestAnswersAreWritten(t *testing.T) {
	l := &topic{partitions: 3}
	w, notices := openTopic(t, l)
	answerTo(t, w, "a", 1)
	answerTo(t, w, "b", 2)
	if err := w.close(t.Context()); err != nil || len(notices()) > 0 {
		t.Error(err, notices())
	}
	var texts []string
	for p, messages := range l.messages {
		for _, m := range messages {
			if kafkalog.Partitioner(3)(m.Key) != p {
				t.Errorf("%s is in partition %d", m.Key, p)
			}
			traced := len(m.Headers) == 1 && m.Headers[0].Key == "traceparent" && string(m.Headers[0].Value) == trace
			if of := strings.HasPrefix(string(m.Key), "b/"); traced != of || !of && len(m.Headers) > 0 {
				t.Errorf("%s has the headers %s", m.Key, m.Headers)
			}
			texts = append(texts, string(m.Key)+" "+string(m.Value))
		}
	}
	slices.Sort(texts)
	const prediction = `"prediction":{"label":"no","probabilities":{"no":0.75,"yes":0.25}}}`
	if want := []string{
		`a {"request":"a","row":0,"version":7,"features":[0],` + prediction,
		`b/0 {"request":"b","row":0,"version":7,"features":[0],` + prediction,
		`b/1 {"request":"b","row":1,"version":7,"features":[1],` + prediction,
	}; !slices.Equal(texts, want) {
		t.Errorf("%s", strings.Join(texts, "\n"))
	}
	if n := testutil.ToFloat64(w.written); n != 3 {
		t.Errorf("%v are counted", n)
	}
	answerTo(t, w, "c", 1) // too late
	if n := testutil.ToFloat64(w.dropped); n != 1 {
		t.Errorf("%v are dropped", n)
	}
}

// While brokers are unavailable, requests do not wait: messages that exceed the buffer are dropped, counted, and reported
// once a minute. Buffered messages are written afterwards.
func TestBrokersAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := make(chan struct{})
		l := &topic{partitions: 1, append: func(ctx context.Context) error {
			select {
			case <-away:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		w, notices := openTopic(t, l)
		w.limit = 4 * (messageBytes + 200)
		began := time.Now()
		for i := range 100 {
			answerTo(t, w, fmt.Sprint(i), 1)
			synctest.Wait()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("answers waited %v", took)
		}
		dropped := testutil.ToFloat64(w.dropped)
		if dropped < 90 || dropped > 97 || len(notices()) != 1 || !strings.Contains(notices()[0], "answers to 1 rows were not written to answers: ") {
			t.Errorf("%v are dropped, reported %q", dropped, notices())
		}
		time.Sleep(2 * noticeEvery)
		answerTo(t, w, "later", 1)
		synctest.Wait()
		if want := fmt.Sprintf("answers to %v rows", dropped); len(notices()) != 2 || !strings.HasPrefix(notices()[1], want) {
			t.Errorf("reported %q, expected %s", notices(), want)
		}
		close(away)
		if err := w.close(t.Context()); err != nil {
			t.Error(err)
		}
		if written := testutil.ToFloat64(w.written); written != 100-dropped || len(l.keys(0)) != int(written) || l.keys(0)[0] != "0" || w.bytes != 0 {
			t.Errorf("%v are written: %v; %d bytes wait", written, l.keys(0), w.bytes)
		}
	})
}

// Brokers that reject a message only lose that one; brokers that are unavailable at shutdown delay it no longer than the
// context.
func TestWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := true
		l := &topic{partitions: 1}
		l.append = func(ctx context.Context) error {
			if refusing {
				refusing = false
				return errors.New("not authorized")
			}
			return nil
		}
		w, notices := openTopic(t, l)
		answerTo(t, w, "refused", 1)
		synctest.Wait()
		answerTo(t, w, "written", 1)
		synctest.Wait()
		if len(notices()) != 1 || !strings.Contains(notices()[0], "append to answers[0]: not authorized") || !slices.Equal(l.keys(0), []string{"written"}) {
			t.Errorf("%q, written %v", notices(), l.keys(0))
		}
		l.append = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		answerTo(t, w, "late", 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := w.close(ctx)
		if err == nil || !strings.Contains(err.Error(), "answers to 3 rows were not written") || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if n := testutil.ToFloat64(w.dropped); n != 4 {
			t.Errorf("%v are dropped", n)
		}
	})
}

// A row that is too large for a message is dropped, but not the others of its request.
func TestLargeRow(t *testing.T) {
	l := &topic{partitions: 1}
	w, _ := openTopic(t, l)
	r := w.begin("a", nil)
	for _, size := range []int{1, maxMessage, 1} {
		addRow(t, r, fmt.Sprintf("%q", strings.Repeat("x", size)))
	}
	r.send()
	if err := w.close(t.Context()); err == nil && testutil.ToFloat64(w.dropped) != 1 || !slices.Equal(l.keys(0), []string{"a/0", "a/2"}) {
		t.Errorf("%v, written %v", err, l.keys(0))
	}
}

// The sampled fraction of requests is the configured one, and a larger sample includes a smaller one.
func TestSample(t *testing.T) {
	const n = 20_000
	for _, fraction := range []float64{0.01, 0.1, 0.5, 0.9} {
		sampled := 0
		for i := range n {
			id := fmt.Sprint("request-", i)
			few, more := AnswersOptions{Sample: fraction}, AnswersOptions{Sample: fraction + 0.1}
			if few.samples(id) {
				sampled++
				if !more.samples(id) {
					t.Fatalf("%s is among %v, and not among %v", id, few.Sample, more.Sample)
				}
			}
		}
		if deviation := math.Abs(float64(sampled)-n*fraction) / math.Sqrt(n*fraction*(1-fraction)); deviation > 4 {
			t.Errorf("%d of %d are sampled, expected %v", sampled, n, n*fraction)
		}
	}
}

// A row that is not sampled has no cost.
func TestNotSampled(t *testing.T) {
	var w *answersWriter
	answerTo(t, w, "a", 1)
	w = &answersWriter{options: AnswersOptions{Sample: 1e-300}}
	answerTo(t, w, "a", 1)
}

func TestIDs(t *testing.T) {
	for id, valid := range map[string]bool{rand.Text(): true, "a/b:1": true, "": false, "a b": false, "é": false, "a\n": false,
		strings.Repeat("x", 200): true, strings.Repeat("x", 201): false} {
		if isID(id) != valid {
			t.Errorf("%q: %v", id, !valid)
		}
	}
}

// Lists are split like those of encoding/json.
func FuzzAppendNamed(f *testing.F) {
	for _, seed := range []string{`[]`, `[ ]`, `[1]`, `[1, "a,]\"\\", [2, {"b": [3, "}"]}], {}, null ]`, `[[],[[]]]`} {
		f.Add([]byte(seed))
	}
	names := []json.RawMessage{[]byte(`"a"`), []byte(`"b"`), []byte(`"c"`), []byte(`"d"`), []byte(`"e"`)}
	f.Fuzz(func(t *testing.T, list []byte) {
		var want []json.RawMessage
		if !json.Valid(list) || list[0] != '[' || list[len(list)-1] != ']' || json.Unmarshal(list, &want) != nil {
			return
		}
		var got map[string]json.RawMessage
		if text := appendNamed(nil, list, names); json.Unmarshal(text, &got) != nil {
			t.Fatalf("%s became %s", list, text)
		}
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			if found, ok := got[name]; ok != (i < len(want)) || ok && string(found) != string(want[i]) {
				t.Errorf("%s: value %d is %s", list, i, found)
			}
		}
	})
}
