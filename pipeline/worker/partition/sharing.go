package partition

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/wire"
)

// NewSharingStore returns an empty store for consecutive runs over the same messages, such as those of a search, with a
// shared survey or one each. Within the budget, it keeps the blocks of all stages, and the Gram matrices.
func NewSharingStore(bytes int64) *Store {
	s := NewStore(bytes)
	s.budget.sharing, s.grams = true, map[GramKey]*wire.Record[float32]{}
	return s
}

// GramKey identifies the Gram matrix of a share's block. Of is the digest of everything that it depends on.
type GramKey struct {
	Share int // its first partition
	Of    wire.Digest
}

// Shares reports whether the store is for runs over the same messages.
func (s *Store) Shares() bool { return s != nil && s.grams != nil }

// Gram returns the record of a Gram matrix of an earlier run, with the identity of that run; nil if the store has none.
func (s *Store) Gram(key GramKey) *wire.Record[float32] {
	if !s.Shares() {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.grams[key]
}

// trusts reports whether the batches of a segment belong to the messages counted by the survey, although this process has
// not counted them in this run: the survey's result is that of an earlier run over the same messages. The checksum of the
// first visit verifies this.
func (s *Store) trusts(segment *Segment) bool { return s.Shares() && segment.counted == nil }

// KeepGram stores the record of a Gram matrix for later runs, if the store is shared and the budget allows.
func (s *Store) KeepGram(key GramKey, r *wire.Record[float32]) {
	if !s.Shares() {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.grams[key] == nil && s.budget.tryReserve(recordBytes(r)) {
		s.grams[key] = r
	}
}

// dropGrams drops all Gram matrices. The caller has locked the mutex.
func (s *Store) dropGrams() {
	for _, r := range s.grams {
		s.budget.Give(recordBytes(r))
	}
	clear(s.grams)
}

func recordBytes(r *wire.Record[float32]) (bytes int64) {
	for _, t := range r.Tensors {
		bytes += 4 * int64(len(t.Data))
	}
	return bytes
}

// setAside keeps the current block, of another stage, when a block with the given number of bytes is to be computed, if
// the store is shared and the budget has room for both.
func (b *Batch) setAside(bytes int64, budget *Budget) bool {
	if !b.kept || b.blockOf == 0 || !budget.sharing || !budget.tryReserve(bytes) {
		return false
	}
	if b.aside == nil {
		b.aside = map[int]kernel.Dense{}
	}
	b.aside[b.blockOf-1] = b.block
	b.block, b.blockOf = kernel.Dense{Data: make([]float32, 0, bytes/4)}, 0
	return true
}

// restore makes the stored block of a stage the batch's block; false if there is none.
func (b *Batch) restore(stage int) bool {
	block, any := b.aside[stage]
	if !any {
		return false
	}
	delete(b.aside, stage)
	if b.blockOf > 0 {
		b.aside[b.blockOf-1] = b.block
		b.block = kernel.Dense{}
	}
	b.block, b.blockOf = block, stage+1
	return true
}

// asideBytes returns the memory of the blocks that were set aside.
func (b *Batch) asideBytes() (bytes int64) {
	for _, block := range b.aside {
		bytes += int64(4 * cap(block.Data))
	}
	return bytes
}

// forget drops the blocks for which keep returns false, and returns the memory of those that were set aside.
func (b *Batch) forget(keep func(stage int) bool, budget *Budget) {
	if b.blockOf > 0 && !keep(b.blockOf-1) {
		b.blockOf = 0
	}
	for stage, block := range b.aside {
		if !keep(stage) {
			budget.Give(int64(4 * cap(block.Data)))
			delete(b.aside, stage)
		}
	}
}
