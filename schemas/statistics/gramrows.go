package statistics

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Kinds of records of an update that have rows of a block instead of the Gram matrix of a [Gram] record: of new rows, and of rows that
// leave the window. They are as confidential as the examples.
const (
	KindGramRows  wire.Kind = "gram-rows"
	KindLeaveRows wire.Kind = "leave-rows"
)

// Fields of these records: the rows of a partition, or of merged partitions in the order of the plan. Within a partition they are in the
// order of its segments.
const (
	FieldGramBatches = "gram_batches" // [b, 4], each message: partition, place among the leaving increments, segment, number of rows
	FieldGramBlock   = "gram_block"   // [n, p], each row whose weight is not 0, times the square root of its weight
)

// The same fields for rows that leave the window, in a sum that also has new rows.
const (
	FieldLeaveBatches = "leave_batches"
	FieldLeaveBlock   = "leave_block"
)

// OfGram reports whether records of a kind are for a Gram matrix: that of new rows, or of rows that leave the window.
func OfGram(kind wire.Kind) bool {
	switch kind {
	case KindGram, KindLeave, KindGramRows, KindLeaveRows:
		return true
	}
	return false
}

// FewGramRows reports whether n rows of a block with p columns are sent instead of their Gram matrix. In single precision, the matrix
// has p(p+1)/2 values, and n rows have n·p.
func FewGramRows(n int64, p int) bool { return n <= int64(p)/2 }

// maxExact is the end of the integers that single precision represents exactly.
const maxExact = 1 << 24

// gramRows is the record of rows.
type gramRows struct {
	wire.Identity
	Weight  *float64             `header:"weight,omitzero"`
	Batches wire.Tensor[float32] `tensor:"gram_batches,omitzero"`
	Block   wire.Tensor[float32] `tensor:"gram_block,omitzero"`
}

// Check returns an error unless the batches have as many rows as the block.
func (g *gramRows) Check() error {
	if g.Weight != nil && !isCount(*g.Weight) {
		return fmt.Errorf("rows of weight %v", *g.Weight)
	}
	if g.Batches.Shape == nil && g.Block.Shape == nil {
		return nil
	}
	if len(g.Batches.Shape) != 2 || g.Batches.Shape[1] != 4 {
		return &wire.ShapeError{Tensor: FieldGramBatches, Got: g.Batches.Shape, Want: []int{-1, 4}}
	}
	rows := 0
	for i, x := range g.Batches.Data {
		if !(x >= 0 && x < maxExact && x == float32(int32(x))) {
			return fmt.Errorf("%v in the tensor %s", x, FieldGramBatches)
		}
		if i%4 == 3 {
			rows += int(x)
		}
	}
	if len(g.Block.Shape) != 2 || g.Block.Shape[0] != rows {
		return &wire.ShapeError{Tensor: FieldGramBlock, Got: g.Block.Shape, Want: []int{rows, -1}}
	}
	return nil
}

// GramRowsRecord makes a record from fields of a sum. Those of the rows are named [FieldGramBatches] and [FieldGramBlock], and their
// weight, if there is one, [FieldGramRows].
func GramRowsRecord(id wire.Identity, fields wire.Tensors[float64]) *wire.Record[float32] {
	g := &gramRows{Identity: id}
	for _, t := range fields {
		switch t.Name {
		case FieldGramBatches:
			g.Batches = converted[float32](t)
		case FieldGramBlock:
			g.Block = converted[float32](t)
		case FieldGramRows:
			g.Weight = &t.Data[0]
		}
	}
	return wire.RecordOf[float32](g)
}

// GramRowsOf is the inverse of [GramRowsRecord]. An error wraps [wire.ErrDamaged].
func GramRowsOf(r *wire.Record[float32]) (fields wire.Tensors[float64], err error) {
	g, err := read(r, &gramRows{})
	if err != nil {
		return nil, err
	}
	if g.Weight != nil {
		fields = append(fields, wire.Vector(FieldGramRows, []float64{*g.Weight}))
	}
	for _, t := range r.Tensors {
		fields = append(fields, converted[float64](t))
	}
	return fields, nil
}

// converted returns a tensor in another precision.
func converted[T, S wire.Number](t wire.Tensor[S]) wire.Tensor[T] {
	to := wire.Tensor[T]{Name: t.Name, Shape: t.Shape, Data: make([]T, len(t.Data))}
	for i, v := range t.Data {
		to.Data[i] = T(v)
	}
	return to
}
