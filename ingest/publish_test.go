package ingest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// memoryTopic is an examples topic whose partitions start at different offsets.
type memoryTopic struct {
	mutex      sync.Mutex
	partitions [][]wire.Message
	capacity   int // number of messages that may still be written; negative: unlimited
}

var errFull = errors.New("the topic is full")

func (m *memoryTopic) first(partition int) int64 { return int64(100 * partition) }

// write is an Appender.
func (m *memoryTopic) write(_ context.Context, partition int, messages ...wire.Message) (int64, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.capacity == 0 {
		return 0, errFull
	}
	m.capacity--
	offset := m.first(partition) + int64(len(m.partitions[partition]))
	m.partitions[partition] = append(m.partitions[partition], messages...)
	return offset, nil
}

// spans returns the spans of all messages on the topic.
func (m *memoryTopic) spans() []coverage.Span {
	spans := make([]coverage.Span, len(m.partitions))
	for p, messages := range m.partitions {
		spans[p] = coverage.Span{Partition: p, From: m.first(p), To: m.first(p) + int64(len(messages))}
	}
	return spans
}

// A Publish interrupted after any number of messages, and then continued, writes the same messages and the same seal as an
// uninterrupted one. All of them count.
func TestInterruptedPublishContinues(t *testing.T) {
	const rows, partitions = 8, 3
	f := newFolder(t)
	o := Defaults()
	o.BatchRows, o.Partitions = 1, partitions
	var table strings.Builder
	for i := range rows {
		fmt.Fprintf(&table, "a,%d\n", i)
	}
	o.Train = []string{f.write(t, "a.csv", []byte(table.String()))}
	found := must(Sources(context.Background(), o))(t)
	publish := func(topic *memoryTopic) (*schemas.SourceSeal, error) {
		spans := topic.spans()
		before := slices.Clone(spans)
		seen := int64(0)
		seal, err := Publish(context.Background(), found[0], Attempt{ID: "x", Spans: spans}, topic.write, memory.DefaultAllocator,
			func(rows int64) {
				if rows != seen+1 {
					t.Errorf("progress: %d rows after %d", rows, seen)
				}
				seen = rows
			}, func(map[string]int64) {})
		if !slices.Equal(spans, before) {
			t.Errorf("spans of the caller: %v, were %v", spans, before)
		}
		return seal, err
	}
	whole := &memoryTopic{partitions: make([][]wire.Message, partitions), capacity: -1}
	want := must(publish(whole))(t)
	if want.Rows != rows || want.Messages != rows || want.ID != found[0].ID || want.Attempt != "x" {
		t.Errorf("seal %+v", want)
	}
	for capacity := range rows {
		topic := &memoryTopic{partitions: make([][]wire.Message, partitions), capacity: capacity}
		if _, err := publish(topic); !errors.Is(err, errFull) {
			t.Fatalf("capacity for %d messages: %v", capacity, err)
		}
		topic.capacity = -1
		seal, err := publish(topic)
		if err != nil || !reflect.DeepEqual(seal, want) || !reflect.DeepEqual(topic.partitions, whole.partitions) {
			t.Errorf("interrupted after %d messages: seal %+v, expected %+v; %v", capacity, seal, want, err)
		}
	}
	for p, messages := range whole.partitions {
		replay := protocol.NewCounting(&schemas.Plan{Sources: []schemas.SourceSeal{*want}}).Replay(coverage.Span{Partition: p})
		for _, m := range messages {
			if _, err := replay.Complete(); !errors.As(err, new(*protocol.IncompleteSourceError)) {
				t.Errorf("partition %d: complete before its end", p)
			}
			if replay.Accept(m) != "" || replay.Accept(m) != coverage.Repeated {
				t.Errorf("partition %d, %s: expected to count once", p, m.Key)
			}
		}
		if missing, err := replay.Complete(); err != nil || missing != nil {
			t.Errorf("missing %v, %v", missing, err)
		}
	}
}

// An error of the source ends Publish, and there is no seal.
func TestPublishOfChangedFile(t *testing.T) {
	f := newFolder(t)
	o := Defaults()
	o.Train = []string{f.write(t, "a.csv", []byte("0,1\n1,2\n"))}
	found := must(Sources(context.Background(), o))(t)
	f.write(t, "a.csv", []byte("0,1\n1,3\n"))
	topic := &memoryTopic{partitions: make([][]wire.Message, 1), capacity: -1}
	seal, err := Publish(context.Background(), found[0], Attempt{Spans: topic.spans()}, topic.write, memory.DefaultAllocator,
		func(int64) {}, func(map[string]int64) {})
	if seal != nil || !isFileError(err) {
		t.Errorf("seal %v, %v", seal, err)
	}
}
