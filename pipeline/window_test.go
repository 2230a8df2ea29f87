package pipeline

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// windowOf returns a window of increments with numbers from 1 and so many rows each, a message of partition 0 each, a second apart.
func windowOf(rows ...int64) *schemas.Window {
	w := &schemas.Window{Chain: &schemas.Chain{Number: len(rows)}, Full: 1, FullRows: 1}
	for i, n := range rows {
		span := coverage.Span{From: int64(i), To: int64(i + 1)}
		w.Increments = append(w.Increments, schemas.WindowIncrement{
			Increment: coverage.Increment{Number: i + 1, Weight: 1, Covered: []coverage.Coverage{{Spans: coverage.Spans{span}, Rows: n}}},
			Until:     int64(i+1) * 1000, Fitted: float64(n),
		})
	}
	return w
}

func numbers(increments []coverage.Increment) (all []int) {
	for i := range increments {
		all = append(all, increments[i].Number)
	}
	return all
}

// What leaves is what the window does not admit, the oldest first; retention takes any.
func TestLeave(t *testing.T) {
	for _, test := range []struct {
		name    string
		window  topics.WindowOptions
		staying []coverage.Span
		rows    []int64
		found   int64
		want    string
	}{
		{"no limit", topics.WindowOptions{}, nil, []int64{10, 10, 10}, 10, "[]"},
		{"rows: as many stay as are asked for", topics.WindowOptions{Rows: 30}, nil, []int64{10, 10, 10}, 10, "[1]"},
		{"rows: fewer would stay", topics.WindowOptions{Rows: 31}, nil, []int64{10, 10, 10}, 10, "[]"},
		{"rows: one increment fills it", topics.WindowOptions{Rows: 30}, nil, []int64{10, 10, 10}, 30, "[1 2 3]"},
		{"increments", topics.WindowOptions{Increments: 2}, nil, []int64{10, 10, 10}, 1, "[1 2]"},
		{"an increment without rows pushes none out", topics.WindowOptions{Increments: 2}, nil, []int64{10, 0, 10}, 1, "[1 2]"},
		{"time", topics.WindowOptions{Time: 2 * time.Second}, nil, []int64{10, 10, 10}, 1, "[1]"},
		{"retention takes the first message", topics.WindowOptions{}, []coverage.Span{{From: 1, To: 9}}, []int64{10, 10, 10}, 1, "[1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := windowOf(test.rows...)
			plan := &schemas.Chain{Number: 4, Until: 4000, Update: &schemas.Update{Decay: 0.5}}
			stays := leaveRule{retrain: topics.RetrainOptions{Window: test.window, Decay: 1}, bytes: schemas.WindowBytes, staying: test.staying}.
				leave(plan, w, test.found)
			if got := fmt.Sprint(numbers(plan.Update.Leave)); got != test.want {
				t.Errorf("%s leave, expected %s", got, test.want)
			}
			if len(stays)+len(plan.Update.Leave) != len(w.Increments) {
				t.Errorf("%d stay and %d leave of %d", len(stays), len(plan.Update.Leave), len(w.Increments))
			}
			for _, c := range plan.Update.Leave {
				if c.Weight != 0.5 {
					t.Errorf("increment %d leaves with the weight %v, expected its own after one more update", c.Number, c.Weight)
				}
			}
		})
	}
}

// After a change of the stream what came before it leaves, and the rest is visited with its whole weight.
func TestRestart(t *testing.T) {
	w := windowOf(10, 10, 10)
	w.Changed = 2
	w.Increments[2].Increment.Weight = 0.25
	u := restart(w, 1)
	if got := fmt.Sprint(numbers(u.Leave), numbers(u.Refresh)); got != "[1] [2 3]" {
		t.Errorf("leave and refresh: %s", got)
	}
	for _, c := range u.Refresh {
		if c.Weight != 1 {
			t.Errorf("increment %d has the weight %v", c.Number, c.Weight)
		}
	}
	if u.Passes < restartPasses || !u.Restart {
		t.Errorf("%d passes, a restart: %v", u.Passes, u.Restart)
	}
}

// A full run is due after so many updates, when the window has grown or its list is long, after a failure, and when the
// window is not what was learnt; never without rows.
func TestFullIsDue(t *testing.T) {
	job := &topics.Job{Retrain: topics.RetrainOptions{Decay: 1, Full: topics.FullOptions{Every: 3, Growth: 2}, OnNewClass: topics.NewClassFull, NewClassRows: 5}}
	head := &schemas.Manifest{Window: &schemas.StatePlace{}}
	for _, test := range []struct {
		name   string
		change func(*chainState)
		want   bool
	}{
		{"just made", func(*chainState) {}, false},
		{"grown", func(s *chainState) { s.window.FullRows = 15 }, true},
		{"grown, but full already", func(s *chainState) { s.window.FullRows, s.window.Full = 15, 3 }, false},
		{"enough updates", func(s *chainState) { s.window.Chain.Number = 4 }, true},
		{"a failed attempt", func(s *chainState) { s.attempt = 1 }, true},
		{"no state", func(s *chainState) { s.head = &schemas.Manifest{} }, true},
		{"a class with few rows", func(s *chainState) { s.window.Unknown = []examples.LabelRows{{Label: "a", Rows: 4}} }, false},
		{"another class", func(s *chainState) { s.window.Unknown = []examples.LabelRows{{Label: "a", Rows: 5}} }, true},
		{"other rows than were learnt", func(s *chainState) { s.renews = true }, true},
		{"a long list", func(s *chainState) {
			s.window = windowOf(slices.Repeat([]int64{1}, 21)...)
			s.window.Full, s.window.FullRows = 20, 21
		}, true},
		{"no rows", func(s *chainState) { s.window, s.attempt = windowOf(0, 0, 0), 1 }, false},
	} {
		s := chainState{head: head, window: windowOf(10, 10, 10)}
		s.window.FullRows = 30
		if test.change(&s); s.fullIsDue(job, windowOf(slices.Repeat([]int64{1}, 20)...).Bytes()) != test.want {
			t.Errorf("%s: full is due: %v", test.name, !test.want)
		}
	}
}

// What leaves the window by offsets takes whole increments with it, and one that is cut no longer knows its rows.
func TestLeaveOut(t *testing.T) {
	s := chainState{}
	s.window = windowOf(10, 10, 10)
	if got := fmt.Sprint(s.deleted([]coverage.Span{{From: 2, To: 9}})); got != "[[0]@0–2]" {
		t.Errorf("deleted is %s", got)
	}
	s.leaveOut(coverage.Spans{{From: 0, To: 2}})
	if !s.renews || s.rows() != 10 {
		t.Errorf("renews: %v, %d rows", s.renews, s.rows())
	}
	s.leaveOut(coverage.Spans{{From: 0, To: 9}})
	if s.window != nil {
		t.Errorf("the window is %+v", s.window)
	}
	// A chain whose window is gone does not look for what the log has deleted of it.
	if len(s.deleted([]coverage.Span{{From: 5, To: 9}})) > 0 {
		t.Error("no window loses rows")
	}
}

// retrainWithin learns all that the topic has, with windows of so many bytes.
func retrainWithin(t *testing.T, log *kafkalog.Log, job topics.Job, bytes int64, rec event.Recorder) {
	t.Helper()
	p, blas := topics.OpenFor(log, job, nil), openBLAS(t)
	noError(t, topics.Create(t.Context(), p, &job))
	memory := must(visit.CacheBytes(job.Memory))(t)
	cache := visit.NewCache(memory)
	join := func(ctx context.Context) (execution, func(), error) {
		members, err := dispatch.Join(ctx, p, job, cache, blas, rec)
		if err != nil {
			return nil, nil, err
		}
		return members.Execute, members.Leave, nil
	}
	r := newRunner(p, job, protocol.NewSoleOwner(1), dispatch.Arithmetic(blas), join, rec)
	r.windowBytes = bytes
	noError(t, r.run(t.Context(), true))
}

// bytesOf returns the length of the list of so many increments of one span.
func bytesOf(increments int64) int64 {
	c := schemas.WindowIncrement{Increment: coverage.Increment{Covered: []coverage.Coverage{{Spans: make(coverage.Spans, 1)}}}}
	return increments * (&schemas.Window{Increments: []schemas.WindowIncrement{c}}).Bytes()
}

// With decay, increments have different weights and can't be merged: the oldest leave where the list, or the state
// topic, has no room for one more, and where they weigh nothing beside a row that comes. The versions go on, and are
// those of a window that ends there.
func TestDecayedWindowsEnd(t *testing.T) {
	long(t)
	const rows, updates, most = 8, 20, 8
	for name, test := range map[string]struct {
		decay  float64
		bytes  int64
		window topics.WindowOptions
		want   int
	}{
		"room for some":      {0.9, bytesOf(most), topics.WindowOptions{}, most + 1},
		"weighs nothing":     {1e-4, schemas.WindowBytes, topics.WindowOptions{}, 4}, // 1e-16 is less than 2^-53
		"the window is less": {0.9, bytesOf(most), topics.WindowOptions{Increments: most / 2}, most / 2},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full, job.Memory = rows, 1, topics.FullOptions{}, 1
			job.Retrain.Decay, job.Retrain.Window = test.decay, test.window
			for n := range updates {
				produce(t, log, job, 0, exampleMessage(t, rings(rows, 4, 3, uint64(n)).exampleRows()))
			}
			retrainWithin(t, log, job, test.bytes, recorderFunc(func(event.Event) {}))
			if w := newestWindow(t, log, job); len(w.Increments) != test.want || w.Rows() != int64(test.want)*rows {
				t.Errorf("after %d updates the window has %d increments with %d rows, expected %d with %d", updates, len(w.Increments),
					w.Rows(), test.want, test.want*rows)
			}
		})
	}
}

// If the next messages have no row to fit to, and all others would leave the window, nothing leaves it. An update with
// nothing to fit to would fail, be followed by a full run, and be made again, for ever.
func TestWindowKeepsRowsUntilOthersCome(t *testing.T) {
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages, job.Retrain = job.Stages[:1], topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.Window = 100, topics.FullOptions{}, topics.WindowOptions{Time: time.Millisecond}
	log := openEmbedded(t)
	retrain := func() []*schemas.RetrainReport {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		made := 0
		report := must(Retrain(ctx, log, openBLAS(t), job, true, &eventRecorder{on: func(e event.Event) {
			if _, ok := e.(event.Retrained); ok {
				if made++; made > 1 {
					cancel()
				}
			}
		}}))(t)
		return report.Updates
	}
	for i, weights := range [][]float32{nil, make([]float32, 100), nil} {
		rows := rings(100, 4, 3, uint64(i)).exampleRows()
		rows.Weights = weights
		produce(t, log, job, 0, exampleMessage(t, rows))
		made := retrain()
		if want := []int64{100, 200, 100}[i]; len(made) != 1 || made[0].WindowRows != want {
			t.Errorf("%+v, expected one version whose window has %d rows", made, want)
		}
	}
}

// fakeTopic has the offsets of the messages of each partition, in order. Its messages have no rows that can be decoded.
type fakeTopic struct {
	protocol.Log
	offsets [][]int64
	read    int // messages
	asked   coverage.Spans
}

func (t *fakeTopic) Range(_ string, partition int, from, to int64) protocol.Reader {
	s := coverage.Span{Partition: partition, From: from, To: to}
	t.asked = append(t.asked, s)
	return &fakeReader{t, s}
}

func (t *fakeTopic) backlog() *backlog {
	return newBacklog(&topics.Pipeline{Client: &protocol.Client{Log: t, Codec: protocol.NewCodec(nil, 0)}}, source.NewForgotten(), nil)
}

func (t *fakeTopic) bounds() (bounds []coverage.Span) {
	for n, offsets := range t.offsets {
		span := coverage.Span{Partition: n}
		if len(offsets) > 0 {
			span.From, span.To = offsets[0], offsets[len(offsets)-1]+1
		}
		bounds = append(bounds, span)
	}
	return bounds
}

type fakeReader struct {
	topic *fakeTopic
	span  coverage.Span
}

func (r *fakeReader) Next(context.Context) (protocol.Message, error) {
	for _, offset := range r.topic.offsets[r.span.Partition] {
		if offset >= r.span.From && offset < r.span.To {
			r.span.From = offset + 1
			r.topic.read++
			return protocol.Message{Offset: offset, Time: time.UnixMilli(offset)}, nil
		}
	}
	return protocol.Message{}, io.EOF
}

func (r *fakeReader) Close() error { return nil }

// backlogOf returns the backlog of a topic from its beginning.
func backlogOf(topic *fakeTopic) *backlog {
	b := topic.backlog()
	var begins []int64
	for _, span := range topic.bounds() {
		begins = append(begins, span.From)
	}
	b.begin(begins, slices.Clone(begins), nil)
	b.refresh(topic.bounds())
	return b
}

// cutAll cuts all that a backlog has. A cut wants more rows than there are, as no message can be decoded.
func cutAll(t *testing.T, b *backlog) coverage.Spans {
	t.Helper()
	increment, err := b.cut(t.Context(), 1, false, nil)
	if err != nil || increment.rows != 0 || increment.whole {
		t.Fatalf("cut %+v, %v", increment, err)
	}
	return increment.spans
}

// A cut has every message, whatever gaps are between them, and reads each once.
func TestCutPassesOverGaps(t *testing.T) {
	for _, gap := range []int64{1, readAhead - 1, readAhead, readAhead + 1, maxReadAhead + 1} {
		t.Run(fmt.Sprint(gap), func(t *testing.T) {
			topic := &fakeTopic{offsets: [][]int64{{0, gap, gap + 1, 3 * gap}, {5, 5 + 2*gap}}}
			b := backlogOf(topic)
			if got, want := cutAll(t, b).Hulls(), fmt.Sprint(topic.bounds()); fmt.Sprint(got) != want {
				t.Errorf("the cut has %v, the topic %s", got, want)
			}
			if topic.read != 6 {
				t.Errorf("%d messages were read, the topic has 6", topic.read)
			}
			if left := b.behind(); left.Messages != 6 {
				t.Errorf("%d messages are behind before a run takes them, expected 6", left.Messages)
			}
		})
	}
}

// What the topic deletes before a run has looked at it is lost, once, and what it has had read is read no more.
func TestDeletedOffsetsAreLost(t *testing.T) {
	topic := &fakeTopic{offsets: [][]int64{{0, 1, 2, 3}, {0, 1}}}
	b := backlogOf(topic)
	cutAll(t, b)
	topic.offsets[0] = topic.offsets[0][2:]
	b.refresh(topic.bounds())
	b.refresh(topic.bounds())
	if got := fmt.Sprint(b.lost); got != "[[0]@0–2]" {
		t.Errorf("lost is %s", got)
	}
	if got := fmt.Sprint(cutAll(t, b)); got != "[[0]@2–4 [1]@0–2]" {
		t.Errorf("the cut has %s", got)
	}
}

// If the runs so far have nothing of a partition, which began behind offset 0, and a source comes to count, the messages that are there are
// cut, and none before them is asked for.
func TestSourceBesideAPartitionWithoutARun(t *testing.T) {
	topic := &fakeTopic{offsets: [][]int64{{6, 7}, {0, 1}}}
	b := topic.backlog()
	b.begin([]int64{6, 0}, []int64{0, 2}, nil)
	b.refresh(topic.bounds())
	b.follow([]schemas.SourceSeal{{ID: "s", Attempt: "a", Partitions: 2, Spans: coverage.Spans{{Partition: 0, From: 7, To: 8}}}}, nil, topic.bounds())
	topic.asked = coverage.Spans{}
	if got, want := cutAll(t, b), "[[0]@6–8]"; fmt.Sprint(got) != want {
		t.Errorf("cut %v, expected %s", got, want)
	}
	if topic.asked[0].From != 6 {
		t.Errorf("asked for %v", topic.asked)
	}
}

// A topic that has less than was read of it has shrunk; one with more has not.
func TestShrunk(t *testing.T) {
	topic := &fakeTopic{offsets: [][]int64{{0, 1, 2}, {0, 1}}}
	b := backlogOf(topic)
	cutAll(t, b)
	for _, test := range []struct {
		name   string
		bounds []coverage.Span
		want   bool
	}{
		{"as it was", topic.bounds(), false},
		{"more", []coverage.Span{{Partition: 0, To: 9}, {Partition: 1, To: 9}, {Partition: 2}}, false},
		{"truncated", []coverage.Span{{Partition: 0, To: 2}, {Partition: 1, To: 2}}, true},
		{"a partition less", []coverage.Span{{Partition: 0, To: 3}}, true},
	} {
		if got := b.shrunk(test.bounds); got != test.want {
			t.Errorf("%s: shrunk is %v", test.name, got)
		}
	}
	rest := []coverage.Span{{Partition: 0, To: 2}}
	b.shrink(rest)
	b.refresh(rest)
	if len(b.ends) != 1 || b.behind().Messages != 2 {
		t.Errorf("%d partitions, %+v behind, expected one with two messages", len(b.ends), b.behind())
	}
}

// A partition that no longer holds what runs have looked at goes on after what is proven of it.
func TestReplace(t *testing.T) {
	topic := &fakeTopic{offsets: [][]int64{{0, 1, 2, 3}, {0, 1}}}
	b := backlogOf(topic)
	b.begin([]int64{0, 0}, []int64{4, 2}, []coverage.Mark{{Partition: 0, Offset: 3}, {Partition: 1, Offset: 1}})
	b.refresh(topic.bounds())
	b.replace(topic.bounds()[0], 2, &coverage.Mark{Partition: 0, Offset: 1})
	if got := fmt.Sprint(cutAll(t, b)); got != "[[0]@2–4]" {
		t.Errorf("the cut has %s", got)
	}
	for _, m := range b.marks {
		if m.Offset != 1 {
			t.Errorf("the mark of partition %d is at offset %d, expected 1", m.Partition, m.Offset)
		}
	}
}
