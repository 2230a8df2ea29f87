package accumulate

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A small update sends the rows of a block instead of their Gram matrix. The solver adds them as workers would:
//
//	AddGramRows ──record──▶ GramOfRows.Sum
//
// So both have the same bits.

// GramPlace is the place of a message's rows in the sum of a visit: the partition, the place of their increment among those that leave
// the window, and the segment of the partition.
type GramPlace struct{ Partition, Increment, Segment int }

// AddGramRows keeps the rows of a message's block instead of adding them to the Gram matrix with [Accumulator.AddGram].
func (a *Accumulator) AddGramRows(block kernel.Dense, weights []float32, at GramPlace) {
	fitted, ones := count(weights)
	if fitted == 0 {
		return
	}
	if !ones {
		rootScaled(&a.scaled, block, weights, fitted)
		block = a.scaled
	}
	rows := make([]float64, len(block.Data))
	for i, x := range block.Data {
		rows[i] = float64(x)
	}
	a.sum.appendRows(wire.Matrix(statistics.FieldGramBatches, 1, 4,
		[]float64{float64(at.Partition), float64(at.Increment), float64(at.Segment), float64(block.Rows)}))
	a.sum.appendRows(wire.Matrix(statistics.FieldGramBlock, block.Rows, block.Cols, rows))
}

// appendRows appends rows to the field of that name.
func (s *Sum) appendRows(rows wire.Tensor[float64]) {
	before, any := s.find(rows.Name)
	if !any {
		s.fields = append(s.fields, rows)
		return
	}
	s.set(wire.Matrix(rows.Name, before.Shape[0]+rows.Shape[0], before.Shape[1], append(before.Data, rows.Data...)))
}

// TakeGramRows removes the rows of these two fields, and returns them as a sum of its own over nothing, as [statistics.FieldGramBatches]
// and [statistics.FieldGramBlock]. It is empty if there are none.
func (s *Sum) TakeGramRows(batches, block string) *Sum {
	rows := &Sum{}
	rows.Move(s, batches, statistics.FieldGramBatches)
	rows.Move(s, block, statistics.FieldGramBlock)
	return rows
}

// AddRounded adds weight times x, rounded to single precision, to dst.
func AddRounded(dst []float64, weight float64, x []float64) {
	for i, v := range x {
		dst[i] += weight * float64(float32(v))
	}
}

// GramOfRows computes the Gram matrix of rows that [Accumulator.AddGramRows] kept. All fields but Buffers are needed.
type GramOfRows struct {
	BLAS       *kernel.BLAS
	Buffers    *BufferPool   // memory of the matrices; nil: new memory
	Size       int           // number of values of the packed matrix
	Partitions []int         // of the plan, in order
	Tree       coverage.Tree // how their sums are added
}

// Sum returns the Gram matrix of rows in the order of the partitions, without a field if there are none. If the rows leave the window,
// leaving has the weights of their increments; otherwise it is nil. The error wraps [wire.ErrDamaged].
func (g *GramOfRows) Sum(rows wire.Tensors[float64], leaving []float64) (*Sum, error) {
	of, err := gramRowsOf(rows, g.Size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrDamaged, err)
	}
	ahead := g.begin(of, leaving)
	defer ahead.wait()
	reduction := NewReduction(g.Tree)
	reduction.Buffers = g.Buffers
	_, err = reduction.AddReady(func(from, to int) (*Sum, error) {
		if to-from > 1 {
			return nil, nil
		}
		return ahead.next()
	})
	if err != nil {
		return nil, err
	}
	if len(of.batches) > 0 {
		return nil, fmt.Errorf("%w: rows of partition %d, which is not the next one", wire.ErrDamaged, of.batches[0].Partition)
	}
	return reduction.Sum()
}

// maxGramsAhead is the maximum number of partitions whose Gram matrices are summed at the same time. Each takes about 8p² bytes, for p
// columns, together not more than workers would otherwise.
const maxGramsAhead = 4

// gramsAhead sums the Gram matrices of partitions on all cores, ahead of their turn.
type gramsAhead struct {
	rows       *gramRows
	partitions []int // not begun
	leaving    []float64
	begun      []chan gramOutcome // in order
	idle       chan *Accumulator
}

type gramOutcome struct {
	sum *Sum
	err error
}

func (g *GramOfRows) begin(rows *gramRows, leaving []float64) *gramsAhead {
	n := min(runtime.GOMAXPROCS(0), maxGramsAhead)
	ahead := &gramsAhead{rows: rows, partitions: g.Partitions, leaving: leaving, idle: make(chan *Accumulator, n)}
	for range n {
		ahead.idle <- &Accumulator{BLAS: g.BLAS, Buffers: g.Buffers}
	}
	return ahead
}

// next returns the Gram matrix of the next partition.
func (g *gramsAhead) next() (*Sum, error) {
	for len(g.partitions) > 0 && len(g.begun) < cap(g.idle) {
		g.begin(g.rows.take(g.partitions[0]))
		g.partitions = g.partitions[1:]
	}
	first := <-g.begun[0]
	g.begun = g.begun[1:]
	return first.sum, first.err
}

// begin begins to sum the rows of a partition.
func (g *gramsAhead) begin(rows *gramRows) {
	done := make(chan gramOutcome, 1)
	g.begun = append(g.begun, done)
	if len(rows.batches) == 0 {
		done <- gramOutcome{sum: &Sum{}}
		return
	}
	go func() {
		a := <-g.idle
		sum, err := rows.gram(a, g.leaving)
		g.idle <- a
		done <- gramOutcome{sum, err}
	}()
}

// wait waits until all sums that have begun are complete.
func (g *gramsAhead) wait() {
	for _, done := range g.begun {
		<-done
	}
}

// gramRows are the rows of messages.
type gramRows struct {
	batches []gramBatch
	columns int
	block   []float64 // of these messages
	single  kernel.Dense
	ones    []float32
}

type gramBatch struct {
	GramPlace
	rows int
}

// gramRowsOf reads the fields of rows, whose Gram matrix has size values: one row of other columns could have a matrix that exceeds memory.
func gramRowsOf(rows wire.Tensors[float64], size int) (*gramRows, error) {
	batches, any := rows.Find(statistics.FieldGramBatches)
	if !any {
		return &gramRows{}, nil
	}
	block, _ := rows.Find(statistics.FieldGramBlock)
	if len(batches.Shape) != 2 || batches.Shape[1] != 4 {
		return nil, &wire.ShapeError{Tensor: batches.Name, Got: batches.Shape, Want: []int{-1, 4}}
	}
	r, n := &gramRows{block: block.Data}, 0
	for at := range slices.Chunk(batches.Data, 4) {
		r.batches = append(r.batches, gramBatch{GramPlace{int(at[0]), int(at[1]), int(at[2])}, int(at[3])})
		n += int(at[3])
	}
	if len(block.Shape) != 2 || block.Shape[0] != n {
		return nil, &wire.ShapeError{Tensor: statistics.FieldGramBlock, Got: block.Shape, Want: []int{n, -1}}
	}
	r.columns = block.Shape[1]
	if r.columns > size || r.columns*(r.columns+1)/2 != size {
		return nil, fmt.Errorf("rows of %d columns for a Gram matrix of %d values", r.columns, size)
	}
	return r, nil
}

// take removes the messages of a partition, which are the first, and returns them.
func (r *gramRows) take(number int) *gramRows {
	n, values := 0, 0
	for n < len(r.batches) && r.batches[n].Partition == number {
		values += r.batches[n].rows * r.columns
		n++
	}
	taken := &gramRows{batches: r.batches[:n], columns: r.columns, block: r.block[:values]}
	r.batches, r.block = r.batches[n:], r.block[values:]
	return taken
}

// gram removes all messages, which are those of a partition, and returns their Gram matrix: the sum of those of its increments, each
// rounded to single precision.
func (r *gramRows) gram(a *Accumulator, leaving []float64) (*Sum, error) {
	increments := make([]Sum, max(len(leaving), 1))
	for len(r.batches) > 0 {
		at := r.batches[0].Increment
		if at >= len(increments) {
			return nil, fmt.Errorf("%w: rows of increment %d of %d", wire.ErrDamaged, at, len(increments))
		}
		if err := increments[at].MergeWhole(r.segment(a), a.Buffers, nil); err != nil {
			return nil, err
		}
	}
	if leaving == nil {
		increments[0].RoundGram()
		return &increments[0], nil
	}
	sum := &Sum{}
	for i := range increments {
		if gram, any := increments[i].Tensors().Find(statistics.FieldGram); any {
			AddRounded(sum.Field(statistics.FieldGram, gram.Shape...), leaving[i], gram.Data)
			a.Buffers.Put(&increments[i])
		}
	}
	return sum, nil
}

// segment removes the messages of the first segment, and returns its Gram matrix.
func (r *gramRows) segment(a *Accumulator) *Sum {
	a.Begin(r.columns, 0, true)
	for at := r.batches[0].GramPlace; len(r.batches) > 0 && r.batches[0].GramPlace == at; r.batches = r.batches[1:] {
		n := r.batches[0].rows
		r.single.Reshape(n, r.columns)
		for i, x := range r.block[:n*r.columns] {
			r.single.Data[i] = float32(x)
		}
		r.block = r.block[n*r.columns:]
		for len(r.ones) < n {
			r.ones = append(r.ones, 1)
		}
		a.AddGram(r.single, r.ones[:n])
	}
	return a.End()
}
