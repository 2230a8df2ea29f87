package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// fakeTopic has the offsets of the messages of each partition, in order. Its messages have no rows that can be decoded.
type fakeTopic struct {
	offsets [][]int64
	read    int // messages
	asked   coverage.Spans
}

func (t *fakeTopic) Range(s coverage.Span) protocol.Reader {
	t.asked = append(t.asked, s)
	return &fakeReader{t, s}
}

func (t *fakeTopic) Examples(int, protocol.Message) (*examples.Batch, error) {
	return nil, errors.New("no rows")
}

func (t *fakeTopic) String() string { return "test.examples" }

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
	b := newBacklog(topic, nil)
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
	b := newBacklog(topic, nil)
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
