package prepare

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// surveyed returns a survey's result over three features, the last of which is constant.
func surveyed() wire.Tensors[float32] {
	return wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{1, 2, 3}),
		wire.Vector(statistics.TensorScale, []float32{1, 0.5, 0}),
		wire.Matrix(statistics.TensorBasis, 3, 2, []float32{1, 1, 0, 2, 0, 0}),
		wire.Vector(statistics.TensorSpread, []float32{4}),
		wire.Words[float32](statistics.TensorLabels, []string{"no", "yes"}),
	}
}

func TestApply(t *testing.T) {
	nan := float32(math.NaN())
	raw := []float32{
		2, 4, 3,
		nan, 6, 100, // a missing value becomes the mean, and a constant feature 0 for any value
		3, nan, nan,
	}
	p, err := New(schemas.Prepare{Scale: ScaleStandard}, surveyed())
	arrowtest.NoError(t, err)
	if p.Width() != 3 || p.Inputs() != 3 || p.Spread != 4 || p.Labels.Len() != 2 {
		t.Errorf("the preparation is %+v", p)
	}
	x := kernel.Dense{Rows: 3, Cols: 3, Data: slices.Clone(raw)}
	p.Apply(kernel.Gonum(), x, x) // in place
	if want := []float32{1, 1, 0, 0, 2, 0, 2, 0, 0}; !slices.Equal(x.Data, want) {
		t.Errorf("prepared rows are %v, expected %v", x.Data, want)
	}

	if p, err = New(schemas.Prepare{Scale: ScaleStandard, PCA: 2}, surveyed()); err != nil {
		t.Fatal(err)
	}
	dst := kernel.NewDense(3, 2)
	p.Apply(kernel.Gonum(), dst, kernel.Dense{Rows: 3, Cols: 3, Data: raw})
	if want := []float32{1, 3, 0, 4, 2, 2}; p.Inputs() != 2 || !slices.Equal(dst.Data, want) {
		t.Errorf("projected rows are %v, expected %v", dst.Data, want)
	}
	none := kernel.Dense{Cols: 2}
	p.Apply(kernel.Gonum(), none, kernel.Dense{Cols: 3})
}

func TestApplyDividesByTheLength(t *testing.T) {
	p := arrowtest.Must(New(schemas.Prepare{Scale: ScaleUnit}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{0.5, 0}),
		wire.Vector(statistics.TensorScale, []float32{1, 1}),
		wire.Vector(statistics.TensorSpread, []float32{1}),
		wire.Words[float32](statistics.TensorLabels, []string{"a"}),
	}))(t)
	nan := float32(math.NaN())
	x := kernel.Dense{Rows: 5, Cols: 2, Data: []float32{
		3, 4,
		0, 0, // zero length: unchanged
		nan, -7, // the missing value adds nothing to the length
		1e-44, 0, // 1/1e-44 exceeds the range of float32
		3e38, 0,
	}}
	p.Apply(kernel.Gonum(), x, x)
	want := []float32{0.1, 0.8, -0.5, 0, 0, -1, 0.5, 0, 0.5, 0}
	for i, v := range x.Data {
		if !(math.Abs(float64(v-want[i])) < 1e-6) {
			t.Fatalf("prepared rows are %v, expected %v", x.Data, want)
		}
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for name, wrong := range map[string]wire.Tensor[float32]{
		statistics.TensorCenter: wire.Matrix(statistics.TensorCenter, 1, 3, []float32{1, 2, 3}),
		statistics.TensorScale:  wire.Vector(statistics.TensorScale, []float32{1}),
		statistics.TensorBasis:  wire.Matrix(statistics.TensorBasis, 3, 1, []float32{1, 2, 3}),
		statistics.TensorSpread: wire.Vector(statistics.TensorSpread, []float32{1, 2}),
		statistics.TensorLabels: wire.Words[float32](statistics.TensorLabels, nil),
	} {
		for _, absent := range []bool{true, false} {
			tensors := surveyed()
			at := slices.IndexFunc(tensors, func(t wire.Tensor[float32]) bool { return t.Name == name })
			if tensors[at] = wrong; absent {
				tensors = slices.Delete(tensors, at, at+1)
			}
			_, err := New(schemas.Prepare{PCA: 2}, tensors)
			if shape := (*wire.ShapeError)(nil); !errors.As(err, &shape) || shape.Tensor != name {
				t.Errorf("%s, absent %v: %v", name, absent, err)
			}
		}
	}
}
