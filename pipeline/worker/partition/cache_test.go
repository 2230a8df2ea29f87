package partition

import (
	"context"
	"io"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Batches are restored in a run that counts the same messages and has the same dependencies, and their blocks if these
// have the same dependencies. Otherwise their memory is released.
func TestBatchesComeBack(t *testing.T) {
	const budget = 1 << 20
	made := Made{Rows: "rows", Blocks: "blocks"}
	counted := func(offset int64, checksum uint64) []Counted { return []Counted{{offset, checksum}} }
	for name, test := range map[string]struct {
		made    Made
		own     bool // the blocks depend only on Made
		counted []Counted
		rows    bool // restored
		block   bool
	}{
		"the same":            {made, true, counted(3, 7), true, true},
		"blocks of scores":    {made, false, counted(3, 7), true, false},
		"other blocks":        {Made{"rows", "other"}, true, counted(3, 7), true, false},
		"other rows":          {Made{"other", "blocks"}, true, counted(3, 7), false, false},
		"another message":     {made, true, counted(3, 8), false, false},
		"no message":          {made, true, []Counted{}, false, false},
		"more messages":       {made, true, []Counted{{3, 7}, {4, 9}}, false, false},
		"no survey made here": {made, true, nil, false, false},
	} {
		cache, span := NewCache(budget), coverage.Span{To: 4}
		b := newBatch(3, 65, 3, 2)
		b.Checksum = 7
		before := New(4, NewPart(span, 0, nil))
		before.Segments[0].KeepBatches([]*Batch{b}, cache)
		b.Block(0, 5, &kernel.Dense{}, cache)
		cache.Leave(before, made, func(int) bool { return test.own })
		if before.Segments[0].Batches() != nil || !cache.Has(budget) {
			t.Errorf("%s: what was left is not idle", name)
		}
		after := New(4, NewPart(span, 0, nil))
		after.Segments[0].SetCounted(test.counted)
		cache.Return(after, test.made, false)
		got := after.Segments[0].Batches()
		if back := len(got) == 1 && got[0] == b; back != test.rows {
			t.Errorf("%s: the batches come back, %v; expected %v", name, back, test.rows)
		}
		if cache.Has(budget) == test.rows {
			t.Errorf("%s: the budget has all of its bytes, %v", name, test.rows)
		}
		if test.rows {
			if _, block := got[0].Block(0, 5, &kernel.Dense{}, cache); block != test.block {
				t.Errorf("%s: the block comes back, %v; expected %v", name, block, test.block)
			}
		}
		after.Release(cache)
		if !cache.Has(budget) || cache.Has(budget+1) {
			t.Errorf("%s: the budget has not its bytes", name)
		}
	}
}

// segmentAt returns the segment of so many messages at an offset.
func segmentAt(from, n int64) *Segment {
	return New(n, NewPart(coverage.Span{From: from, To: from + n}, 0, nil)).Segments[0]
}

// keep stores a message of a segment that takes so many bytes, and counts it.
func keep(c *Cache, s *Segment, bytes int) {
	m := protocol.Message{Message: wire.Message{Value: make([]byte, bytes-112)}, Offset: s.Span.From}
	c.Keep(s, []protocol.Message{m})
	s.SetCounted([]Counted{{Offset: m.Offset}})
}

// What the run no longer uses is dropped when the run needs the memory, least recently used first, and nothing else is.
func TestIdleGoes(t *testing.T) {
	const n, bytes = 4, 1000
	cache, segments := NewCache(n*bytes), []*Segment{}
	for offset := range int64(n + 1) {
		segments = append(segments, segmentAt(offset, 1))
		keep(cache, segments[offset], bytes)
	}
	stored := func(want ...bool) {
		t.Helper()
		for i, s := range segments {
			if got := cache.Messages(s) != nil; got != want[i] {
				t.Errorf("segment %d is stored: %v", i, got)
			}
		}
	}
	stored(true, true, true, true, false) // all are used
	if cache.tryReserve(1) {
		t.Error("memory is given that the run uses")
	}
	cache.Rest(segments[2], segments[0], segments[2])
	if !cache.Has(2*bytes) || cache.Has(2*bytes+1) || !cache.tryReserve(1) {
		t.Error("the memory of what is idle is not given")
	}
	stored(false, true, true, true, false)
	keep(cache, segments[4], bytes)
	stored(false, true, false, true, true)
	r := cache.Range(noLog{}, "", coverage.Span{From: 3, To: 6})
	for _, want := range []int64{3, 4, -1} {
		if m, err := r.Next(t.Context()); err == nil && m.Offset != want || err != nil && want >= 0 {
			t.Errorf("offset %d, %v, expected %d", m.Offset, err, want)
		}
	}
	cache.Drop(0)
	if cache.Give(1); !cache.Has(n*bytes) || cache.Has(n*bytes+1) {
		t.Error("the cache has not its bytes")
	}
	single := NewRunCache(bytes)
	keep(single, segments[0], bytes)
	if single.Rest(segments[0]); single.Messages(segments[0]) != nil || !single.Has(bytes) {
		t.Error("what a single run no longer uses is kept")
	}
}

// noLog is a log without messages.
type noLog struct{ protocol.Log }

func (noLog) Range(string, int, int64, int64) protocol.Reader { return noReader{} }

type noReader struct{}

func (noReader) Next(context.Context) (protocol.Message, error) { return protocol.Message{}, io.EOF }
func (noReader) Close() error                                   { return nil }

// A Gram matrix stays for runs that need the same, while there is room besides everything else, and goes with the data of its partition.
func TestGramMatricesStay(t *testing.T) {
	record := &wire.Record[float32]{Tensors: wire.Tensors[float32]{{Shape: []int{10}, Data: make([]float32, 10)}}}
	cache := NewCache(100)
	cache.KeepGram(1, "a", record)
	cache.KeepGram(1, "b", record)
	cache.KeepGram(2, "c", record) // there is no room
	if cache.Gram(1, "a") != record || cache.Gram(1, "b") != record || cache.Gram(2, "c") != nil || cache.Gram(2, "a") != nil {
		t.Error("the cache has other matrices than those that it had room for")
	}
	if !cache.Reserve(60) || cache.Gram(1, "a") != nil || cache.Gram(1, "b") != record {
		t.Error("expected that the matrix that was used first goes, and the other stays")
	}
	cache.Drop(1)
	if cache.Gram(1, "b") != nil || !cache.Has(40) {
		t.Error("expected no matrix of a partition that was dropped")
	}
	once := NewRunCache(100)
	if once.KeepGram(1, "a", record); once.Gram(1, "a") != nil || !once.Has(100) {
		t.Error("expected no matrix of a run that is the only one")
	}
}
