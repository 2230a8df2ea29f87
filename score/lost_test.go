package score

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// shortenedLog is a log whose topic p.examples, of one partition, loses messages, as after an unclean election of a
// leader. Those that are written afterwards take their offsets.
type shortenedLog struct {
	protocol.Log
	mutex    sync.Mutex
	messages []protocol.Message
	changed  chan struct{} // closed when the messages change, and then replaced
}

// shorten puts a log that can lose messages in the place of the topic's.
func shorten(t *testing.T, a *topic) *shortenedLog {
	l := &shortenedLog{Log: a.client.Log, changed: make(chan struct{})}
	arrowtest.NoError(t, a.client.Remaining(t.Context(), "p.examples", 0, 0, math.MaxInt64, func(m protocol.Message) error {
		l.messages = append(l.messages, m)
		return nil
	}))
	a.client.Log = l
	return l
}

// replace loses the messages from an offset on, and writes others.
func (l *shortenedLog) replace(from int, messages ...protocol.Message) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.messages = slices.Clone(l.messages[:from])
	for _, m := range messages {
		m.Offset, m.Time = int64(len(l.messages)), m.Time.Add(time.Hour)
		l.messages = append(l.messages, m)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *shortenedLog) bounds() coverage.Span {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return coverage.Span{To: int64(len(l.messages))}
}

func (l *shortenedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	if topic != "p.examples" {
		return l.Log.Bounds(ctx, topic, partition)
	}
	return 0, l.bounds().To, nil
}

func (l *shortenedLog) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	if topic != "p.examples" {
		return l.Log.Spans(ctx, topic)
	}
	return []coverage.Span{l.bounds()}, nil
}

func (l *shortenedLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	if topic != "p.examples" {
		return l.Log.Range(topic, partition, from, to)
	}
	return &shortenedRange{l, from, to}
}

func (l *shortenedLog) Subscribe(ctx context.Context, wake <-chan struct{}, from ...protocol.Position) protocol.Subscription {
	if from[0].Topic != "p.examples" {
		return l.Log.Subscribe(ctx, wake, from...)
	}
	return &shortenedSubscription{l, from[0].Offset}
}

// at returns the message at an offset, and what is closed when there may be another.
func (l *shortenedLog) at(offset int64) (m protocol.Message, changed <-chan struct{}, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	end := int64(len(l.messages))
	switch {
	case offset > end:
		return m, nil, &kafkalog.DeletedError{Topic: "p.examples", Wanted: offset, End: end}
	case offset == end:
		return m, l.changed, nil
	}
	return l.messages[offset], nil, nil
}

// shortenedRange reads a range.
type shortenedRange struct {
	log      *shortenedLog
	next, to int64
}

func (r *shortenedRange) Next(context.Context) (protocol.Message, error) {
	if r.next >= r.to {
		return protocol.Message{}, io.EOF
	}
	m, changed, err := r.log.at(r.next)
	if changed != nil {
		err = &kafkalog.DeletedError{Topic: "p.examples", Wanted: r.next, End: r.next}
	}
	r.next++
	return m, err
}

func (r *shortenedRange) Close() error { return nil }

// shortenedSubscription follows the topic.
type shortenedSubscription struct {
	log  *shortenedLog
	next int64
}

func (s *shortenedSubscription) Next(ctx context.Context, _ time.Duration) (*protocol.Delivery, bool, error) {
	for {
		m, changed, err := s.log.at(s.next)
		if changed == nil {
			s.next++
			return &protocol.Delivery{Topic: "p.examples", Message: m}, false, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

func (s *shortenedSubscription) Close() {}

// checkPredictions checks that the last predictions that count of each message are of the message that is there now,
// and that offsets before the first that was lost have been predicted once.
func (l *shortenedLog) checkPredictions(t *testing.T, kept int) {
	t.Helper()
	latest, times := map[int64]*schemas.Prediction{}, map[int64]int{}
	for p, err := range Read(t.Context(), l, "p.predictions", 0, nil) {
		arrowtest.NoError(t, err)
		latest[p.Offset] = p
		times[p.Offset]++
	}
	for _, m := range l.messages {
		if p := latest[m.Offset]; p == nil || p.Checksum != checksum(m) {
			t.Errorf("offset %d: the last prediction that counts is %+v, expected one of the message that is there", m.Offset, p)
		}
		if m.Offset < int64(kept) && times[m.Offset] != 1 {
			t.Errorf("offset %d has %d predictions that count", m.Offset, times[m.Offset])
		}
	}
}

// If the topic of examples has lost messages that had predictions, those that have taken their offsets get predictions,
// and then those after them. Others keep the predictions that they have. Nobody has to delete anything.
func TestLostExamplesAreGoneBehind(t *testing.T) {
	m := newModel(t, 1, 3)
	for name, test := range map[string]struct {
		kept, others []int // of each time that messages are lost: how many stay, and how many others come
	}{
		"none come":         {[]int{5}, []int{0}},
		"fewer":             {[]int{5}, []int{2}},
		"as many":           {[]int{5}, []int{3}},
		"more":              {[]int{5}, []int{9}},
		"again and again":   {[]int{5, 6, 3}, []int{4, 5, 2}},
		"then nothing lost": {[]int{5, 9}, []int{4, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTopic(t, 1, sizes[:8]...)
			log := shorten(t, a)
			other := log.messages[0]
			other.Value = []byte("no examples")
			arrowtest.NoError(t, a.run(t.Context(), true, m, event.Ignore{}))
			for i, kept := range test.kept {
				log.replace(kept, slices.Repeat([]protocol.Message{other}, test.others[i])...)
				other.Time = other.Time.Add(time.Minute)
				for range 2 { // there is nothing to do the second time
					arrowtest.NoError(t, a.run(t.Context(), true, m, event.Ignore{}))
				}
				log.checkPredictions(t, slices.Min(test.kept))
			}
		})
	}
}

// If no message that had predictions is there any more, it is another topic.
func TestNothingIsProved(t *testing.T) {
	a, m := newTopic(t, 1, 1, 2, 3), newModel(t, 1, 3)
	log := shorten(t, a)
	arrowtest.NoError(t, a.run(t.Context(), true, m, event.Ignore{}))
	log.replace(0, log.messages...)
	if err := a.run(t.Context(), true, m, event.Ignore{}); err == nil || !strings.Contains(err.Error(), "does not have predictions of") {
		t.Errorf("got %v, expected that it is another topic", err)
	}
}

// A service goes on by itself.
func TestServiceGoesOnBehindLostExamples(t *testing.T) {
	a, m := newTopic(t, 1, sizes[:8]...), newModel(t, 1, 3)
	log := shorten(t, a)
	other := log.messages[0]
	ctx, cancel := context.WithCancel(t.Context())
	messages := 0
	err := a.run(ctx, false, m, listener(func(e event.Event) {
		scored, ok := e.(event.Scored)
		if !ok {
			return
		}
		switch messages += scored.Messages; messages {
		case 8:
			go log.replace(5, other) // from there on the service reads behind the end
		case 9:
			go log.replace(6, other, other)
		case 11:
			cancel()
		}
	}))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	log.checkPredictions(t, 5)
}
