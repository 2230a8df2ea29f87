package partition

import (
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
		store, span := NewStore(budget), coverage.Span{To: 4}
		b := newBatch(3, 65, 3, 2)
		b.Checksum = 7
		before := New(4, NewPart(span, 0, nil))
		before.Segments()[0].KeepBatches([]*Batch{b}, store.Budget())
		b.Block(0, 5, &kernel.Dense{}, store.Budget())
		store.Leave(before, made, func(int) bool { return test.own })
		if before.Segments()[0].Batches() != nil || !store.Budget().Has(budget) {
			t.Errorf("%s: what was left is not spare", name)
		}
		after := New(4, NewPart(span, 0, nil))
		after.Segments()[0].SetCounted(test.counted)
		store.Return(after, test.made, false)
		got := after.Segments()[0].Batches()
		if back := len(got) == 1 && got[0] == b; back != test.rows {
			t.Errorf("%s: the batches come back, %v; expected %v", name, back, test.rows)
		}
		if store.Budget().Has(budget) == test.rows {
			t.Errorf("%s: the budget has all of its bytes, %v", name, test.rows)
		}
		if test.rows {
			if _, block := got[0].Block(0, 5, &kernel.Dense{}, store.Budget()); block != test.block {
				t.Errorf("%s: the block comes back, %v; expected %v", name, block, test.block)
			}
		}
		after.Release(store.Budget())
		if !store.Budget().Has(budget) || store.Budget().Has(budget+1) {
			t.Errorf("%s: the budget has not its bytes", name)
		}
	}
}

// Spare stretches are evicted when a run needs the memory, oldest first, but not for other spare ones.
func TestSpareGoes(t *testing.T) {
	store := NewStore(3000)
	span := func(from int64) coverage.Span { return coverage.Span{From: from, To: from + 1} }
	for offset := range int64(4) {
		store.Keep(span(offset), []protocol.Message{{Message: wire.Message{Value: make([]byte, 700)}, Offset: offset}})
	}
	has := func() (offsets []bool) {
		for offset := range int64(4) {
			_, _, inMemory := store.piece(span(offset), offset)
			offsets = append(offsets, inMemory)
		}
		return offsets
	}
	if got := has(); !got[0] || !got[1] || !got[2] || got[3] {
		t.Errorf("in memory: %v, expected the first three", got)
	}
	if !store.Budget().tryReserve(1000) {
		t.Error("the memory is not given")
	}
	if got := has(); got[0] || !got[2] {
		t.Errorf("in memory: %v, expected that the first goes", got)
	}
	if store.Budget().tryReserve(2001) || !store.Budget().Has(2000) {
		t.Error("the budget has another size")
	}
	store.Drop(0)
	store.Budget().Give(1000)
	if !store.Budget().Has(3000) || store.Budget().Has(3001) {
		t.Error("the budget has not its bytes")
	}
}
