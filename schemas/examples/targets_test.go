package examples

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Targets come through a message as they are, whatever list has them, in a slice too. A row without targets has none.
func TestTargets(t *testing.T) {
	const rows = `[{"features":[1],"targets":[1.5,-2]},{"features":[2],"targets":null},{"features":[3],"targets":[0.25,8]}]`
	types := arrow.PrimitiveTypes
	for _, of := range []arrow.DataType{
		arrow.FixedSizeListOf(2, types.Float64), arrow.FixedSizeListOf(2, types.Float32), arrow.ListOf(types.Float64),
		arrow.LargeListOf(types.Float32),
	} {
		mem := arrowtest.Allocator(t)
		record, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{dense(1, types.Float32), field("targets", of)}, nil),
			strings.NewReader(rows))
		arrowtest.NoError(t, err)
		for first := range 3 {
			slice := record.NewSlice(int64(first), 3)
			e := arrowtest.Must(Decode(arrowtest.Must(Encode(slice, mem))(t), mem))(t)
			slice.Release()
			got, known := make([]float64, 2*e.Rows), make([]bool, e.Rows)
			arrowtest.NoError(t, e.Targets(got, known, []string{"x", "y"}))
			if want := []float64{1.5, -2, 0, 0, 0.25, 8}[2*first:]; !slices.Equal(got, want) || !slices.Equal(known, []bool{true, false,
				true}[first:]) {
				t.Errorf("%v from row %d: %v %v", of, first, got, known)
			}
			var wrong *ValueError
			if err := e.Targets(make([]float64, e.Rows), known, []string{"x"}); !errors.As(err, &wrong) {
				t.Errorf("one target of two: %v", err)
			}
			e.Release()
		}
		record.Release()
	}
	mem := arrowtest.Allocator(t)
	written := Rows{Rows: 2, Cols: 1, Floats: []float32{1, 2}, Targets: []float64{7, math.NaN()}}
	e := arrowtest.Must(Decode(encodeRows(t, &written, mem), mem))(t)
	defer e.Release()
	got, known := make([]float64, 2), make([]bool, 2)
	if err := e.Targets(got, known, []string{"x"}); err != nil || got[0] != 7 || !slices.Equal(known, []bool{true, false}) {
		t.Errorf("%v %v %v", got, known, err)
	}
}

func TestDamagedTargets(t *testing.T) {
	types := arrow.PrimitiveTypes
	for _, c := range []struct {
		of   arrow.DataType
		rows string
		want string
	}{
		{types.Float64, `[{"features":[1],"targets":1}]`, "expected a list"},
		{arrow.ListOf(types.Int64), `[{"features":[1],"targets":[1]}]`, "expected a list of float64"},
		{arrow.ListOf(types.Float64), `[{"features":[1],"targets":[1]},{"features":[1],"targets":[1,2]}]`, "row 1: 2 targets"},
		{arrow.ListOf(types.Float64), `[{"features":[1],"targets":[null]}]`, "row 0: target 0 is null"},
		{arrow.ListOf(types.Float64), `[{"features":[1],"targets":[1e300]}]`, "not a finite float32"},
	} {
		mem := arrowtest.Allocator(t)
		record, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{dense(1, types.Float32), field("targets", c.of)}, nil),
			strings.NewReader(c.rows))
		arrowtest.NoError(t, err)
		_, err = Decode(arrowtest.Must(Encode(record, mem))(t), mem)
		record.Release()
		if !errors.Is(err, wire.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.rows, err, c.want)
		}
	}
}
