package examples

import (
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// Sparse rows come back from a message as they were written, in bounded memory.
func TestSparseRows(t *testing.T) {
	mem := arrowtest.Allocator(t)
	want := &SparseRows{Ends: []int{2, 2, 3}, Indices: []int32{0, 7, MaxColumns - 1}, Values: []float32{1, -2.5, 1e30}}
	rows := Rows{Rows: 3, Sparse: want, Words: []string{"a", "b", "a"}, Splits: []Split{Train, Test, Train}}
	record := rows.Record(mem)
	value, err := Encode(record, mem)
	record.Release()
	arrowtest.NoError(t, err)
	e := arrowtest.Must(Decode(value, mem))(t)
	defer e.Release()
	got := &SparseRows{Ends: []int{9}, Indices: []int32{9}, Values: []float32{9}}
	e.SparseFeatures(got)
	if !e.Sparse || e.Width != MaxColumns || !slices.Equal(got.Ends, want.Ends) || !slices.Equal(got.Indices, want.Indices) ||
		!slices.Equal(got.Values, want.Values) {
		t.Errorf("%+v, expected %+v", got, want)
	}
	if e.Label(1) != "b" || e.Split(1) != Test {
		t.Errorf("row 1 has the label %q and is for %v", e.Label(1), e.Split(1))
	}
}

// A feature that a producer says is 0 is as one that it leaves out.
func TestSparseZeros(t *testing.T) {
	mem := memory.NewGoAllocator()
	value := fromJSON(t, mem, `[{"features":[{"index":1,"value":0},{"index":4,"value":-1}]},{"features":[{"index":6,"value":0}]}]`,
		sparse(arrow.PrimitiveTypes.Uint8))
	e := arrowtest.Must(Decode(value, mem))(t)
	defer e.Release()
	var got SparseRows
	e.SparseFeatures(&got)
	if !slices.Equal(got.Ends, []int{1, 1}) || !slices.Equal(got.Indices, []int32{4}) || !slices.Equal(got.Values, []float32{-1}) {
		t.Errorf("%+v", got)
	}
}
