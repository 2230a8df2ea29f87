package prepare

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// prepareSparse prepares rows by the factors of their columns.
func prepareSparse(t *testing.T, p schemas.Prepare, factors []float32, rows *examples.SparseRows) kernel.Sparse {
	t.Helper()
	prepared := arrowtest.Must(New(p, wire.Tensors[float32]{
		wire.Vector(statistics.TensorFactors, factors), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}))(t)
	var dst kernel.Sparse
	prepared.ApplySparse(&dst, rows)
	return dst
}

func TestSparseInputs(t *testing.T) {
	rows := &examples.SparseRows{Ends: []int{3, 3, 5}, Indices: []int32{0, 1, 3, 2, 9}, Values: []float32{2, 5, -4, 7, 1}}
	for _, test := range []struct {
		prepare schemas.Prepare
		want    []float64 // of column 0 and column 3 of the first row; column 1 is omitted, column 9 is not in the survey
	}{
		{schemas.Prepare{Scale: ScaleNone}, []float64{2, -2}},
		{schemas.Prepare{Scale: ScaleNone, Values: ValuesNone}, []float64{2, -2}},
		{schemas.Prepare{Scale: ScaleNone, Values: ValuesLog}, []float64{math.Log(3), -math.Log(5) / 2}},
		{schemas.Prepare{Scale: ScaleNone, Values: ValuesSqrt}, []float64{math.Sqrt(2), -1}},
		{schemas.Prepare{Scale: ScaleNone, Values: ValuesBinary}, []float64{1, 0.5}},
		{schemas.Prepare{Scale: ScaleUnit}, []float64{math.Sqrt(0.5), -math.Sqrt(0.5)}},
	} {
		got := prepareSparse(t, test.prepare, []float32{1, 0, 3, 0.5}, rows)
		if got.Rows != 3 || got.Cols != 3 || !slices.Equal(got.Starts, []int{0, 2, 2, 3}) || !slices.Equal(got.Columns, []int32{0, 2, 1}) {
			t.Fatalf("%+v: %+v", test.prepare, got)
		}
		for i, want := range test.want {
			if math.Abs(float64(got.Values[i])-want) > 1e-6 {
				t.Errorf("%+v: value %d is %v, expected %v", test.prepare, i, got.Values[i], want)
			}
		}
	}
}

// Factors of only the kept columns prepare rows like those of all columns.
func TestFactorsOfOccurringColumns(t *testing.T) {
	rows := &examples.SparseRows{Ends: []int{4, 4, 6}, Indices: []int32{0, 1, 3, 9000, 2, 9}, Values: []float32{2, 5, -4, 3, 7, 1}}
	all := make([]float32, 9001)
	all[2], all[3], all[9000] = 3, 0.5, 2
	rest := wire.Tensors[float32]{wire.Vector(statistics.TensorCenter, []float32{1, 2}), wire.Vector(statistics.TensorScale, []float32{2, 1}),
		wire.Words[float32](statistics.TensorLabels, []string{"a", "b"})}
	var want kernel.Sparse
	for _, occurring := range []bool{false, true} {
		found, there, err := statistics.FactorsOf(wire.Tensors[float32]{wire.Vector(statistics.TensorFactors, all)})
		if err != nil || !there {
			t.Fatal(there, err)
		}
		prepared := arrowtest.Must(New(schemas.Prepare{Scale: ScaleUnit}, append(found.Tensors(occurring), rest...)))(t)
		if prepared.Width() != 9001 || prepared.Inputs() != 5 || !slices.Equal(prepared.Factors.Columns(), []int32{0, 1, 2, 3, 9000}) {
			t.Errorf("%d features, %d inputs, columns %v", prepared.Width(), prepared.Inputs(), prepared.Factors.Columns())
		}
		var got kernel.Sparse
		prepared.ApplySparse(&got, rows)
		if !occurring {
			want = got
		} else if !slices.Equal(got.Starts, want.Starts) || !slices.Equal(got.Columns, want.Columns) || !slices.Equal(got.Values, want.Values) {
			t.Errorf("got %+v, expected %+v", got, want)
		}
	}
	for name, damaged := range map[string]wire.Tensors[float32]{
		"a factor of 0":      {statistics.InputsTensor(statistics.TensorFactorColumns, []int32{7}), wire.Vector(statistics.TensorFactorValues, []float32{0})},
		"a factor below 0":   {statistics.InputsTensor(statistics.TensorFactorColumns, []int32{7}), wire.Vector(statistics.TensorFactorValues, []float32{-1})},
		"columns descending": {statistics.InputsTensor(statistics.TensorFactorColumns, []int32{7, 5}), wire.Vector(statistics.TensorFactorValues, []float32{1, 1})},
	} {
		if _, err := New(schemas.Prepare{}, append(damaged, rest...)); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: %v, expected ErrDamaged", name, err)
		}
	}
}

// Settings that do not support sparse rows are rejected, and likewise for dense rows.
func TestRowsAreRefused(t *testing.T) {
	for _, p := range []schemas.Prepare{{Scale: ScaleStandard}, {Scale: ScaleNone, PCA: 3}} {
		if err := CheckRows(p, true); !errors.As(err, new(*DenseError)) || CheckRows(p, false) != nil {
			t.Errorf("%+v: %v, expected a DenseError", p, err)
		}
	}
	for _, p := range []schemas.Prepare{{MinRows: 2}, {Values: ValuesLog}, {IDF: 1}} {
		if err := CheckRows(p, false); !errors.As(err, new(*SparseError)) || CheckRows(p, true) != nil {
			t.Errorf("%+v: %v, expected a SparseError", p, err)
		}
	}
	for _, factors := range [][]float32{{}, {0, 0}, {1, -1}, {1, float32(math.NaN())}, {float32(math.Inf(1))}} {
		_, err := New(schemas.Prepare{}, wire.Tensors[float32]{
			wire.Vector(statistics.TensorFactors, factors), wire.Words[float32](statistics.TensorLabels, []string{"a"}),
		})
		if !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("factors %v: %v, expected ErrDamaged", factors, err)
		}
	}
}
