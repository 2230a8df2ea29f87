package stages

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Monomials may overflow when their inputs do not. Such a row has only its intercept.
func TestBlockThatOverflows(t *testing.T) {
	p := arrowtest.Must(prepare.New(schemas.Prepare{Scale: prepare.ScaleNone}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{0, 0}), wire.Vector(statistics.TensorScale, []float32{1, 1}),
		wire.Vector(statistics.TensorSpread, []float32{2}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}))(t)
	f := DefaultsOf(Polynomial)
	f.Size, f.Degree = 8, 4
	m := arrowtest.Must(NewMap(f, 1, 0, p, 0, true))(t)
	x := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, 2, 1e9, -1e9, 0, 0}}
	var block, alone, scratch kernel.Dense
	overflowed := m.Expand(kernel.Gonum(), &block, &scratch, x, kernel.Dense{})
	m.Expand(kernel.Gonum(), &alone, &scratch, x.Slice(0, 1), kernel.Dense{})
	if want := append(make([]float32, 8), 1); !slices.Equal(overflowed, []int{1}) || !slices.Equal(block.Row(1), want) ||
		!slices.Equal(block.Row(0), alone.Row(0)) {
		t.Errorf("block %v, of which %v overflow", block, overflowed)
	}
	if n := m.Overflowed(block, x); n != 1 { // the last row is 0, like its inputs
		t.Errorf("%d rows have overflowed, expected 1", n)
	}
}
