package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Batch is the rows of an accepted examples message and the rows augmented from them, n in total. It may be used by one
// goroutine at a time.
type Batch struct {
	Offset          int64         // of the message
	Checksum        uint64        // see [Checksum]
	Inputs          kernel.Dense  // n × m, prepared; none if the rows are sparse
	Codes           []uint8       // n × c: codes of the raw features, which trees compare; nil without trees
	Sparse          kernel.Sparse // n × m, prepared; none if the rows are dense
	Examples        int           // number of rows of the message, which come first; the others are augmented
	accumulate.Rows               // classes, weights and splits
	Score           kernel.Dense  // n × k: before the stage, in the unit of its link
	After           kernel.Dense  // n × k: after the stage, once its residuals are published; before that see Shown
	// weights record with which After was computed, for a stage that is fitted in blocks; "" for other stages
	Shown wire.Digest

	// Votes are the votes of the previous members (n × k), in a plan that averages; empty in others.
	Votes kernel.Dense

	At int // stage that Score precedes; only kept in an update

	Overflowed int // number of rows whose inputs or targets overflow

	chosen       kernel.Sparse // see Choose
	chosenInputs []int32
	kept         bool         // in memory between visits, like its block if memory allows
	block        kernel.Dense // n × p
	blockOf      int          // stage of block plus 1; 0: none
	leaves       tree.Leaves
	leavesOf     any // map whose trees the leaves belong to
}

// LeaveOut removes the labels and training weights of rows whose inputs or targets overflow.
func (b *Batch) LeaveOut(rows []int) {
	for _, i := range rows {
		b.Classes[i], b.Fitted[i] = examples.Unlabelled, 0
	}
	b.Overflowed += len(rows)
}

// Len returns n, the number of rows.
func (b *Batch) Len() int { return b.Inputs.Rows + b.Sparse.Rows }

// Block returns memory for the batch's block of a stage (n × columns), and whether the block is already computed. If not,
// the caller computes all of it. The block stays in memory between visits if the batch does and the budget allows.
// Otherwise it is in shared, which is reshaped.
func (b *Batch) Block(stage, columns int, shared *kernel.Dense, cache *Cache) (block kernel.Dense, made bool) {
	n := b.Inputs.Rows
	if b.blockOf == stage+1 {
		return b.block, true
	}
	bytes, have := int64(4*n*columns), b.blockBytes()
	if b.kept && (have >= bytes || cache.tryReserve(bytes-have)) {
		b.block.Reshape(n, columns)
		b.blockOf = stage + 1
		return b.block, false
	}
	shared.Reshape(n, columns)
	return *shared, false
}

// forget makes the stored block invalid, unless keep returns true for its stage. Its memory stays.
func (b *Batch) forget(keep func(stage int) bool) {
	if b.blockOf > 0 && !keep(b.blockOf-1) {
		b.blockOf = 0
	}
}

// Leaves returns memory for the leaves of the batch's rows in the trees of a map, and whether they are already computed.
// The leaves stay in memory between visits if the batch does and the budget allows. Otherwise they are in shared.
func (b *Batch) Leaves(of any, trees int, shared *tree.Leaves, cache *Cache) (leaves *tree.Leaves, found bool) {
	if b.leavesOf == of {
		return &b.leaves, true
	}
	have, bytes := int64(cap(b.leaves.Data)), int64(b.Len()*trees)
	if !b.kept || have < bytes && !cache.tryReserve(bytes-have) {
		return shared, false
	}
	if have < bytes {
		b.leaves.Data = make([]uint8, 0, bytes)
	}
	b.leavesOf = of
	return &b.leaves, false
}

// Choose returns some inputs of the batch's sparse rows (n × their number), in ascending order. The result stays in memory
// until other inputs are chosen, if the batch does and the budget allows.
func (b *Batch) Choose(inputs []int32, cache *Cache) kernel.Sparse {
	if b.chosenInputs != nil && slices.Equal(b.chosenInputs, inputs) {
		return b.chosen
	}
	before := sparseBytes(b.chosen)
	b.Sparse.Choose(&b.chosen, inputs)
	b.chosenInputs = inputs
	chosen := b.chosen
	if b.kept && !cache.tryReserve(sparseBytes(chosen)-before) {
		b.chosen, b.chosenInputs = kernel.Sparse{}, nil
		cache.Give(before)
	}
	return chosen
}

func sparseBytes(x kernel.Sparse) int64 {
	return 8*int64(cap(x.Starts)) + 4*int64(cap(x.Columns)+cap(x.Values))
}

// blockBytes returns the memory of the stored block.
func (b *Batch) blockBytes() int64 { return int64(4 * cap(b.block.Data)) }

// bytes returns the memory of the batch, including its block.
func (b *Batch) bytes() int64 {
	others := int64(len(b.Codes)+cap(b.leaves.Data)) + 8*int64(cap(b.Sparse.Starts)+cap(b.Sparse.Values)) + 4*int64(len(b.Rows.Targets.Data))
	return int64(b.Len())*rowBytes(b.Inputs.Cols, b.values()) + others + b.blockBytes() + sparseBytes(b.chosen)
}

// values returns the number of values of a row besides its inputs: its scores before and after the stage, and its votes.
func (b *Batch) values() int { return 2*b.Score.Cols + b.Votes.Cols }

// rowBytes returns the memory of a row in bytes: its inputs, the values of [Batch.values], its class, its weights and its
// split.
func rowBytes(inputs, values int) int64 { return int64(4*inputs + 4*values + 16) }
