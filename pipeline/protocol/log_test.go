package protocol

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// memoryLog is a Log in memory with one partition per topic. It can't be followed.
type memoryLog map[string][]wire.Message

func (l memoryLog) Append(_ context.Context, topic string, _ int, messages ...wire.Message) (int64, error) {
	base := len(l[topic])
	l[topic] = append(l[topic], messages...)
	return int64(base), nil
}

func (l memoryLog) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) (offsets []int64, err error) {
	offsets = make([]int64, len(messages))
	for i := len(messages) - 1; i >= 0 && err == nil; i-- { // in reverse order
		offsets[i], err = l.Append(ctx, topic, partition, messages[i])
	}
	return offsets, err
}

func (l memoryLog) Bounds(_ context.Context, topic string, _ int) (first, end int64, err error) {
	return 0, int64(len(l[topic])), nil
}

func (l memoryLog) Spans(_ context.Context, topic string) ([]coverage.Span, error) {
	return []coverage.Span{{To: int64(len(l[topic]))}}, nil
}

func (l memoryLog) Before(_ context.Context, topic string, _ time.Duration) ([]int64, error) {
	return []int64{int64(len(l[topic]))}, nil // all messages are old
}

func (l memoryLog) DeleteBefore(context.Context, string, int, int64) error { return nil }

func (l memoryLog) Partitions(context.Context, string) (int, error) { return 1, nil }

func (l memoryLog) Range(ctx context.Context, topic string, _ int, from, to int64) iter.Seq2[Message, error] {
	var messages []Message
	for offset := from; offset < to; offset++ {
		messages = append(messages, Message{Message: l[topic][offset], Offset: offset})
	}
	return untilEnded(ctx, messages)
}

func (l memoryLog) Subscribe(context.Context, <-chan struct{}, ...Position) Subscription {
	panic("a memoryLog can't be followed")
}

// live returns the messages of a topic that compaction does not remove, by their keys.
func (l memoryLog) live(topic string) map[string]wire.Message {
	last := map[string]wire.Message{}
	for _, m := range l[topic] {
		last[m.Key] = m
	}
	maps.DeleteFunc(last, func(_ string, m wire.Message) bool { return m.Value == nil })
	return last
}

// gappedLog is a Log of one topic, which is only read. Its partitions begin at an offset, and some of their offsets may have no message.
type gappedLog struct {
	Log
	first      int64
	partitions []*gapped
	reads      int
}

type gapped struct {
	messages map[int64]wire.Message // by offset
	end      int64
}

func newGappedLog(partitions int) *gappedLog {
	l := &gappedLog{}
	for range partitions {
		l.partitions = append(l.partitions, &gapped{messages: map[int64]wire.Message{}})
	}
	return l
}

func (p *gapped) write(m wire.Message) {
	p.messages[p.end] = m
	p.end++
}

func (l *gappedLog) Bounds(_ context.Context, _ string, partition int) (first, end int64, err error) {
	return l.first, l.partitions[partition].end, nil
}

func (l *gappedLog) Spans(context.Context, string) (spans []coverage.Span, err error) {
	for n, p := range l.partitions {
		spans = append(spans, coverage.Span{Partition: n, From: l.first, To: p.end})
	}
	return spans, nil
}

func (l *gappedLog) Range(ctx context.Context, _ string, partition int, from, to int64) iter.Seq2[Message, error] {
	l.reads++
	p, messages := l.partitions[partition], []Message(nil)
	for offset := from; offset < min(to, p.end); offset++ {
		if m, ok := p.messages[offset]; ok {
			messages = append(messages, Message{Message: m, Offset: offset})
		}
	}
	return untilEnded(ctx, messages)
}

// untilEnded yields messages, or the error of a context that has ended.
func untilEnded(ctx context.Context, messages []Message) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for _, m := range messages {
			if !yield(m, ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
	}
}

// newTestClient returns a client of empty topics.
func newTestClient() *Client {
	return &Client{Log: memoryLog{}, Topics: TopicsOf("test"), Memory: memory.DefaultAllocator}
}

// testPlan returns a plan of two stages. Other seeds give other runs.
func testPlan(seed uint64) *schemas.Plan {
	stage := solve.Defaults()
	stage.Features = stages.Defaults()
	stage.Features.Size = 3
	return &schemas.Plan{
		Name: "test", Spans: coverage.Spans{{Partition: 0, From: 0, To: 4}}, Foreign: true, Prepare: schemas.Prepare{Scale: stages.ScaleNone},
		Stages: []schemas.Stage{stage, stage}, Seed: seed, Segment: 2,
	}
}

// testRun creates the records of a run, each with the previous one as its parent.
type testRun struct {
	plan   *schemas.Plan
	run    string
	parent wire.Digest
}

func newTestRun(plan *schemas.Plan) *testRun { return &testRun{plan, plan.Run(), plan.Digest()} }

func (r *testRun) next(record *wire.Record[float32]) *wire.Record[float32] {
	r.parent = record.Digest()
	return record
}

// survey returns the survey's result of two features and two classes.
func (r *testRun) survey() *wire.Record[float32] {
	result := statistics.SurveyResult{
		Identity: wire.Identity{Kind: statistics.KindPrepare, Run: r.run, Stage: wire.Survey, Parent: r.parent},
		Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, []float32{0, 0}), wire.Vector(statistics.TensorScale, []float32{1, 1}),
			wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
		},
	}
	result.Rows[examples.Train] = 10
	return r.next(wire.RecordOf[float32](&result))
}

// weights returns the weights for a visit, all of them v. final ends the stage.
func (r *testRun) weights(stage, visit int, v float32, final bool) *wire.Record[float32] {
	data := make([]float32, 3*2)
	for i := range data {
		data[i] = v
	}
	w := schemas.Weights{
		Identity: wire.Identity{Kind: schemas.KindWeights, Run: r.run, Stage: stage, Visit: visit, Parent: r.parent},
		Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 3, 2, data)},
	}
	if final {
		w.Final = &schemas.Final{Visit: visit - 1}
	}
	return r.next(wire.RecordOf[float32](&w))
}

// all returns the records of the whole run: two visits per stage.
func (r *testRun) all() []*wire.Record[float32] {
	return []*wire.Record[float32]{
		r.survey(), r.weights(0, 1, 1, false), r.weights(0, 2, 2, true), r.weights(1, 1, 3, false), r.weights(1, 2, 4, true),
	}
}

// messages returns the messages of a record.
func messages(t testing.TB, chunk int, r *wire.Record[float32]) []wire.Message {
	t.Helper()
	return assert.Must(r.EncodeWithin(chunk, memory.DefaultAllocator))(t)
}

// add adds all messages of a record to a chain, and reports whether the last one extended it.
func add(t testing.TB, c *Chain, r *wire.Record[float32]) (grown bool) {
	t.Helper()
	for _, m := range messages(t, 0, r) {
		grown = assert.Must(c.Add(m))(t)
	}
	return grown
}

// notices is a recorder that keeps notices.
type notices []string

func (n *notices) Record(e event.Event) {
	if e, ok := e.(event.Noticed); ok {
		*n = append(*n, e.Text)
	}
}

// Between yields messages with their offsets, in order, and ends with its caller's loop or the first error.
func TestBetween(t *testing.T) {
	client := newTestClient()
	for _, key := range []string{"a", "b", "c", "d"} {
		assert.Must(client.Log.Append(t.Context(), "topic", 0, wire.Message{Key: key}))(t)
	}
	got := ""
	for m, err := range client.Between(t.Context(), "topic", 0, 1, 3) {
		assert.NoError(t, err)
		got += m.Key + string('0'+rune(m.Offset))
	}
	assert.Equal(t, got, "b1c2", "messages")
	n := 0
	for _, err := range client.Remaining(t.Context(), "topic", 0, 0, math.MaxInt64) {
		assert.NoError(t, err)
		if n++; n == 2 {
			break
		}
	}
	assert.Equal(t, n, 2, "messages before the loop ended")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	n = 0
	for _, err := range client.Between(ended, "topic", 0, 0, 4) {
		n++
		assert.True(t, errors.Is(err, context.Canceled), "error %v", err)
	}
	assert.Equal(t, n, 1, "times, with one error and no more")
}

// changedLog is a log that changes after its bounds were read: reading returns an error.
type changedLog struct {
	memoryLog
	err error
}

func (l changedLog) Range(context.Context, string, int, int64, int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) { yield(Message{}, l.err) }
}

// Still finds a message again, and says what is in its place, also if the partition changes after its bounds were read.
func TestStill(t *testing.T) {
	log := memoryLog{"t": {{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")}}}
	mark := MarkOf(0, Message{Message: log["t"][1], Offset: 1})
	other := MarkOf(0, Message{Message: log["t"][2], Offset: 1})
	failure := errors.New("failure")
	for _, c := range []struct {
		name     string
		log      Log
		from, to int64
		mark     coverage.Mark
		want     Found
		err      error
	}{
		{"there", log, 0, 3, mark, FoundSame, nil},
		{"another message", log, 0, 3, other, FoundOther, nil},
		{"deleted", log, 2, 3, mark, FoundDeleted, nil},
		{"behind the end", log, 0, 1, mark, FoundEnd, nil},
		{"deleted meanwhile", changedLog{log, &kafkalog.DeletedError{Wanted: 1, First: 2, End: 3}}, 0, 3, mark, FoundDeleted, nil},
		{"shorter meanwhile", changedLog{log, &kafkalog.DeletedError{Wanted: 1, First: 0, End: 1}}, 0, 3, mark, FoundEnd, nil},
		{"unreadable", changedLog{log, failure}, 0, 3, mark, 0, failure},
	} {
		found, err := (&Client{Log: c.log}).Still(t.Context(), "t", coverage.Span{From: c.from, To: c.to}, c.mark)
		assert.True(t, found == c.want && errors.Is(err, c.err), "%s: found %d, %v, want %d, %v", c.name, found, err, c.want, c.err)
	}
}
