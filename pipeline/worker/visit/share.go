package visit

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Share is a worker's state of one share of a plan: of consecutive partitions, whose sums are one record. Create shares with
// [NewShare]. A share is not safe for concurrent use, except that each segment may be used by another goroutine, and that the
// coverage does not change once it is set.
type Share struct {
	Parts    []*Part           // in order
	Segments []*Segment        // in order
	Recent   int               // number of leading segments in the run's own spans, which the survey reads
	Staying  int               // number of leading segments outside leaving increments, which visits read
	Grams    int               // number of leading stages with published Gram matrices
	Surveyed coverage.Coverage // coverage of the survey
	Covered  coverage.Coverage // coverage of the survey and of an update's plan: later visits must cover the same messages
	Visited  protocol.Visit    // last visit with published sums; zero: they are to be published, perhaps again
	Scores   int               // stage before which the batches have the scores, or protocol.NoStage
}

// Part is a partition of a share.
type Part struct {
	Span       coverage.Span        // offset range of the run; empty if an update has no new rows in the partition
	Ordinal    int                  // index of the partition in the plan
	Increments []coverage.Increment // whose offsets are divided into segments; nil: those of the span
	segments   []*Segment           // in the run's own spans
}

// NewShare returns the empty state of a share with the given partitions, in order. segment is the number of offsets of a segment.
func NewShare(segment int64, parts ...*Part) *Share {
	s := &Share{Parts: parts, Scores: protocol.NoStage}
	for _, part := range parts {
		from := len(s.Segments)
		if part.Increments == nil {
			for _, span := range part.Span.Segments(segment) {
				s.Segments = append(s.Segments, &Segment{Part: part, Span: span})
			}
		}
		for i := range part.Increments {
			s.add(part, &part.Increments[i], Segment{Increment: i}, segment)
		}
		part.segments = s.Segments[from:]
		slices.SortFunc(part.segments, func(a, b *Segment) int { return cmp.Compare(a.Span.From, b.Span.From) })
		for i, segment := range part.segments {
			segment.Index, segment.Last = i, i == len(part.segments)-1
		}
	}
	s.Recent, s.Staying = len(s.Segments), len(s.Segments)
	return s
}

// add adds the segments of an increment in a partition, with the properties of like.
func (s *Share) add(part *Part, increment *coverage.Increment, like Segment, segment int64) {
	covered, _ := increment.On(part.Span.Partition)
	for _, span := range covered.Spans {
		for _, span := range span.Segments(segment) {
			next := like
			next.Part, next.Span = part, span
			s.Segments = append(s.Segments, &next)
		}
	}
}

// AddPast adds the segments of an increment that an update revisits, or that leaves; for place see [Segment]. Leaving
// increments come last.
func (s *Share) AddPast(increment *coverage.Increment, place int, leaves bool, segment int64) {
	for _, part := range s.Parts {
		s.add(part, increment, Segment{Increment: place, Leaves: leaves, Past: true}, segment)
	}
	if !leaves {
		s.Staying = len(s.Segments)
	}
}

// Numbers returns the numbers of the partitions.
func (s *Share) Numbers() (numbers []int) {
	for _, part := range s.Parts {
		numbers = append(numbers, part.Span.Partition)
	}
	return numbers
}

// ZeroScores sets the scores before stage 0, which are all zero, and clears the votes.
func (s *Share) ZeroScores() {
	for _, b := range s.batches() {
		clear(b.Score.Data)
		clear(b.Votes.Data)
		b.At = 0
	}
	s.Scores = 0
}

// DropBlocks drops the blocks of rows in memory, and returns their memory. The rows are kept.
func (s *Share) DropBlocks(cache *Cache) {
	for _, b := range s.batches() {
		cache.Give(b.blockBytes())
		b.block, b.blockOf = kernel.Dense{}, 0
	}
}

// Release returns all memory of the share. The share must not be used afterwards.
func (s *Share) Release(cache *Cache) {
	for _, segment := range s.Segments {
		segment.dropBatches(cache)
	}
}

// batches returns the batches that are in memory.
func (s *Share) batches() (batches []*Batch) {
	for _, segment := range s.Segments {
		batches = append(batches, segment.Batches...)
	}
	return batches
}

// Numbers returns the numbers of the partitions of shares.
func Numbers(shares []*Share) (numbers []int) {
	for _, s := range shares {
		numbers = append(numbers, s.Numbers()...)
	}
	return numbers
}

// Segment is a fixed range of a partition's offsets whose messages are summed together. Create segments with [NewShare]. A segment
// may be used by one goroutine at a time.
type Segment struct {
	Part  *Part
	Span  coverage.Span // offset range
	Index int           // of a segment in the run's own spans, among those of its partition
	Last  bool          // it is the last of these
	// Increment is the index of the segment's increment: in a full run among those of the plan; in an update among the visited
	// ones, starting with the new one, or if Leaves is set among the leaving ones.
	Increment int
	Leaves    bool
	Past      bool // the increment is outside the spans of this run

	Batches []*Batch  // that stay in memory between visits; nil: they must be read again
	counted []counted // messages that the survey has counted, in offset order
}

// Checksum returns a hash of the position of a message of a partition, of its number of rows and of its bytes. If a later visit reads other
// bytes or another number of rows, the checksum differs.
func Checksum(m protocol.Message, partition, rows int) uint64 {
	return wire.Hash(uint64(partition), uint64(m.Offset), uint64(rows), uint64(m.Message.Checksum()))
}

// counted is a message that counts in a run.
type counted struct {
	offset   int64
	checksum uint64 // see [Checksum]
}

// has reports whether the batches belong to the messages that the survey has counted.
func (s *Segment) has(batches []*Batch) bool {
	return s.counted != nil && slices.EqualFunc(s.counted, batches, func(c counted, b *Batch) bool {
		return c.offset == b.Offset && c.checksum == b.Checksum
	})
}

// KeepBatches stores the batches of the segment in place of others, if there is room.
func (s *Segment) KeepBatches(batches []*Batch, cache *Cache) {
	s.dropBatches(cache)
	bytes := int64(0)
	for _, b := range batches {
		bytes += b.bytes()
	}
	if cache.tryReserve(bytes) {
		s.Batches = batches
		for _, b := range batches {
			b.kept = true
		}
	}
}

// dropBatches returns the memory of the batches and their blocks.
func (s *Segment) dropBatches(cache *Cache) {
	for _, b := range s.Batches {
		cache.Give(b.bytes())
	}
	s.Batches = nil
}

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
