package statistics

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Rows cross a topic, and records of other content are errors that wrap wire.ErrDamaged.
func TestGramRows(t *testing.T) {
	sent := wire.Tensors[float64]{
		wire.Vector(FieldGramRows, []float64{2.5}), wire.Matrix(FieldGramBatches, 2, 4, []float64{0, 1, 7, 1, 3, 0, 2, 2}),
		wire.Matrix(FieldGramBlock, 3, 2, []float64{1, 2, 3, 4, 5, 6}),
	}
	for _, fields := range []wire.Tensors[float64]{sent, sent[1:], sent[:1], nil} {
		got, err := GramRowsOf(GramRowsRecord(wire.Identity{Kind: KindGramRows}, fields))
		if err != nil || !reflect.DeepEqual(append(wire.Tensors[float64]{}, got...), append(wire.Tensors[float64]{}, fields...)) {
			t.Errorf("%v became %v, %v", fields, got, err)
		}
	}
	block := wire.Matrix(FieldGramBlock, 1, 2, []float32{1, 2})
	for name, r := range map[string]wire.Record[float32]{
		"no batches":            {Tensors: wire.Tensors[float32]{block}},
		"batches of 3 values":   {Tensors: wire.Tensors[float32]{wire.Matrix(FieldGramBatches, 1, 3, []float32{0, 0, 1}), block}},
		"no block":              {Tensors: wire.Tensors[float32]{wire.Matrix(FieldGramBatches, 1, 4, []float32{0, 0, 0, 1})}},
		"other number of rows":  {Tensors: wire.Tensors[float32]{wire.Matrix(FieldGramBatches, 1, 4, []float32{0, 0, 0, 2}), block}},
		"no whole number":       {Tensors: wire.Tensors[float32]{wire.Matrix(FieldGramBatches, 1, 4, []float32{0, 0, 0.5, 1}), block}},
		"negative number":       {Tensors: wire.Tensors[float32]{wire.Matrix(FieldGramBatches, 1, 4, []float32{-1, 0, 0, 1}), block}},
		"number that is no row": {Tensors: wire.Tensors[float32]{wire.Matrix(FieldGramBatches, 1, 4, []float32{0, 0, 0, 1 << 24}), block}},
		"negative weight":       {Notes: []wire.Header{{Key: "weight", Value: "-1"}}},
	} {
		if got, err := GramRowsOf(&r); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Rows are sent where they have fewer values than the triangle of their Gram matrix.
func TestFewGramRows(t *testing.T) {
	for _, p := range []int{1, 2, 63, 64, 65, 4096} {
		for n := range int64(p + 2) {
			if fewer := n*int64(p) < int64(p)*int64(p+1)/2; FewGramRows(n, p) != fewer {
				t.Errorf("%d rows of %d columns: %v, expected %v", n, p, !fewer, fewer)
			}
		}
	}
}
