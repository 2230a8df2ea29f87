package prepare

import (
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

// The valid length of a row of features depends on the preparation.
func TestOverflows(t *testing.T) {
	nan := float32(math.NaN())
	none, standard := schemas.Prepare{Scale: ScaleNone}, schemas.Prepare{Scale: ScaleStandard}
	components, unit, counts := schemas.Prepare{Scale: ScaleStandard, PCA: 2}, schemas.Prepare{Scale: ScaleUnit},
		schemas.Prepare{Scale: ScaleNone, Values: ValuesLog}
	for i, test := range []struct {
		prepare schemas.Prepare
		row     []float32
		want    bool
	}{
		{none, nil, false},
		{none, []float32{1 << 52, 0}, false},
		{none, []float32{1 << 52, 1 << 50}, true},
		{none, []float32{nan, 1 << 52}, false},
		{none, []float32{nan, -(1 << 53)}, true},
		{none, []float32{3e38, 1}, true},
		{standard, []float32{1 << 63, nan}, false},
		{standard, []float32{1.7e18, 2}, false}, // a time in nanoseconds
		{standard, []float32{nan, 1e20}, true},
		{components, []float32{1.7e18, 2}, true},
		{unit, []float32{3e38, 3e38, 3e38}, false},
		{unit, []float32{float32(math.Inf(1))}, true},
		{counts, []float32{3e38}, false},
	} {
		if got := Overflows(test.prepare, test.row); got != test.want {
			t.Errorf("%d: %+v, row %v: %v, expected %v", i, test.prepare, test.row, got, test.want)
		}
	}
}

// A row whose inputs overflow has none, and does not affect the others.
func TestInputsThatOverflow(t *testing.T) {
	tensors := wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{1, 0}), wire.Vector(statistics.TensorScale, []float32{1, 1e10}),
		wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}
	p := arrowtest.Must(New(schemas.Prepare{Scale: ScaleStandard}, tensors))(t)
	x := kernel.Dense{Rows: 4, Cols: 2, Data: []float32{2, 3e38, 3, 1, -1e16, 1, 5, 0}}
	overflowed := p.Apply(kernel.Gonum(), x, x)
	if want := []float32{0, 0, 2, 1e10, 0, 0, 4, 0}; !slices.Equal(x.Data, want) || !slices.Equal(overflowed, []int{0, 2}) {
		t.Errorf("inputs %v, of which %v overflow; expected %v", x.Data, overflowed, want)
	}

	p = arrowtest.Must(New(schemas.Prepare{Scale: ScaleNone}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorFactors, []float32{1, 1e10}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}))(t)
	rows, sparse := examples.SparseRows{Ends: []int{1, 3}, Indices: []int32{0, 0, 1}, Values: []float32{7, 1, 1e7}}, kernel.Sparse{}
	if overflowed := p.ApplySparse(&sparse, &rows); !slices.Equal(overflowed, []int{1}) || sparse.Rows != 2 ||
		!slices.Equal(sparse.Values, []float32{7}) {
		t.Errorf("inputs %+v, of which %v overflow", sparse, overflowed)
	}
}
