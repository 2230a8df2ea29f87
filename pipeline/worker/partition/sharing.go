package partition

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/wire"
)

// NewSharingStore returns an empty store for runs that follow one another over the same messages, with the same survey
// or one of their own: those of a search. As far as the budget allows, the blocks of all stages stay, and the Gram
// matrices.
func NewSharingStore(bytes int64) *Store {
	s := NewStore(bytes)
	s.budget.sharing, s.grams = true, map[GramKey]*wire.Record[float32]{}
	return s
}

// GramKey names the Gram matrix of a partition's block: Of is the digest of all that it depends on.
type GramKey struct {
	Partition int
	Of        wire.Digest
}

// Shares reports whether the store is one for runs over the same messages.
func (s *Store) Shares() bool { return s != nil && s.grams != nil }

// Gram returns the record of a Gram matrix of an earlier run; nil if the store has none. The identity is that of the earlier run.
func (s *Store) Gram(key GramKey) *wire.Record[float32] {
	if !s.Shares() {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.grams[key]
}

// trusts reports whether the batches of a segment are those of the messages that the survey has counted, though this
// process has not counted them in this run: the survey's result is that of an earlier run over the same messages. The
// checksum of the first visit covers them.
func (s *Store) trusts(segment *Segment) bool { return s.Shares() && segment.counted == nil }

// KeepGram keeps the record of a Gram matrix for later runs, if the store shares and the budget allows.
func (s *Store) KeepGram(key GramKey, r *wire.Record[float32]) {
	if !s.Shares() {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.grams[key] == nil && s.budget.take(recordBytes(r)) {
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

// setAside keeps the block of another stage beside the one that is to be made, with that number of bytes, if the budget is for runs that
// share and has room for both.
func (b *Batch) setAside(bytes int64, budget *Budget) bool {
	if !b.kept || b.blockOf == 0 || !budget.sharing || !budget.take(bytes) {
		return false
	}
	if b.aside == nil {
		b.aside = map[int]kernel.Dense{}
	}
	b.aside[b.blockOf-1] = b.block
	b.block, b.blockOf = kernel.Dense{Data: make([]float32, 0, bytes/4)}, 0
	return true
}

// takeUp makes a block that was set aside the batch's block; false if that of the stage was not.
func (b *Batch) takeUp(stage int) bool {
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

// asideBytes returns what the blocks that were set aside take of the budget.
func (b *Batch) asideBytes() (bytes int64) {
	for _, block := range b.aside {
		bytes += int64(4 * cap(block.Data))
	}
	return bytes
}

// forget forgets the blocks for which keep returns false, and gives back what those take that were set aside.
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
