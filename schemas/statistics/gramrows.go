package statistics

import (
	"fmt"
	"slices"
	"strconv"

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

// GramRowsRecord makes a record from fields of a sum. Those of the rows are named [FieldGramBatches] and [FieldGramBlock], and their
// weight, if there is one, [FieldGramRows].
func GramRowsRecord(id wire.Identity, fields wire.Tensors[float64]) *wire.Record[float32] {
	r := &wire.Record[float32]{Identity: id}
	for _, name := range []string{FieldGramBatches, FieldGramBlock} {
		if field, any := fields.Find(name); any {
			r.Tensors = append(r.Tensors, narrow(wire.Tensors[float64]{field})...)
		}
	}
	if weight, any := fields.Find(FieldGramRows); any {
		r.Notes = []wire.Header{{Key: NoteWeight, Value: strconv.FormatFloat(weight.Data[0], 'g', -1, 64)}}
	}
	return r
}

// GramRowsOf is the inverse of [GramRowsRecord]. An error wraps [wire.ErrDamaged].
func GramRowsOf(r *wire.Record[float32]) (wire.Tensors[float64], error) {
	var fields wire.Tensors[float64]
	if text := r.Note(NoteWeight); text != "" {
		weight, err := parseWeight(text)
		if err != nil {
			return nil, r.Damaged(err)
		}
		fields = append(fields, wire.Vector(FieldGramRows, []float64{weight}))
	}
	if len(r.Tensors) == 0 {
		return fields, nil
	}
	batches, _ := r.Tensors.Find(FieldGramBatches)
	block, _ := r.Tensors.Find(FieldGramBlock)
	if len(batches.Shape) != 2 || batches.Shape[1] != 4 {
		return nil, r.Damaged(&wire.ShapeError{Tensor: FieldGramBatches, Got: batches.Shape, Want: []int{-1, 4}})
	}
	rows := 0
	for _, x := range batches.Data {
		if !(x >= 0 && x < maxExact && x == float32(int32(x))) {
			return nil, r.Damaged(fmt.Errorf("%v in the tensor %s", x, FieldGramBatches))
		}
	}
	for i := 3; i < len(batches.Data); i += 4 {
		rows += int(batches.Data[i])
	}
	if len(block.Shape) != 2 || block.Shape[0] != rows {
		return nil, r.Damaged(&wire.ShapeError{Tensor: FieldGramBlock, Got: block.Shape, Want: []int{rows, -1}})
	}
	for _, t := range []wire.Tensor[float32]{batches, block} {
		fields = append(fields, wire.Tensor[float64]{Name: t.Name, Shape: slices.Clone(t.Shape), Data: widened(t.Data)})
	}
	return fields, nil
}

func widened(single []float32) []float64 {
	double := make([]float64, len(single))
	for i, x := range single {
		double[i] = float64(x)
	}
	return double
}
