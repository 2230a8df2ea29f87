package prepare

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// rankedPreparation returns the preparation by ranks of a sample with columns, and its tensors.
func rankedPreparation(t *testing.T, columns examples.Columns, sample kernel.Dense) (*Preparation, wire.Tensors[float32]) {
	t.Helper()
	d := sample.Cols
	center, scale := make([]float32, d), make([]float32, d)
	for j := range d { // like the survey
		n, sum, squares := 0.0, 0.0, 0.0
		for i := range sample.Rows {
			if v := float64(sample.Row(i)[j]); v == v {
				n, sum, squares = n+1, sum+v, squares+v*v
			}
		}
		mean := sum / n
		center[j], scale[j] = float32(mean), float32(1/math.Sqrt(squares/n-mean*mean))
	}
	ranks := LearnRanks(columns, sample, center, scale)
	tensors := append(wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, center), wire.Vector(statistics.TensorScale, scale),
		wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}, ranks...)
	p := arrowtest.Must(New(schemas.Prepare{Scale: ScaleRanks}, tensors))(t)
	return p, tensors
}

// mixedSample returns a sample with a heavy-tailed column, one with missing values, one of three words, and one of few
// values.
func mixedSample(n int) (examples.Columns, kernel.Dense) {
	r := rand.New(rand.NewPCG(1, 2))
	columns := examples.Columns{{Name: "tail"}, {Name: "gaps"}, {Name: "word", Categories: []string{"x", "y"}}, {Name: "few"}}
	sample := kernel.NewDense(n, columns.Features())
	for i := range n {
		row := sample.Row(i)
		row[0], row[1], row[5] = float32(math.Exp(3*r.NormFloat64())), float32(r.NormFloat64()), float32(r.IntN(3))
		if r.IntN(4) == 0 {
			row[1] = float32(math.NaN())
		}
		row[2+r.IntN(3)] = 1
	}
	return columns, sample
}

// Inputs by ranks are invariant to increasing transformations of a column and have mean 0 and variance 1 in the sample;
// the indicators of a word's column have a total variance of 1.
func TestRanks(t *testing.T) {
	for _, n := range []int{63, 64, 65, 2000} {
		columns, sample := mixedSample(n)
		p, _ := rankedPreparation(t, columns, sample)
		if p.Inputs() != 7 { // a column has missing values
			t.Fatalf("%d rows: %d inputs, expected 7", n, p.Inputs())
		}
		inputs := kernel.NewDense(n, p.Inputs())
		p.Apply(kernel.Gonum(), inputs, cloneOf(sample))
		variances := make([]float64, 7)
		for j := range 7 {
			sum, squares, rows := 0.0, 0.0, 0.0
			for i := range n {
				if v := sample.Row(i)[min(j, 5)]; v == v || j == 6 {
					x := float64(inputs.Row(i)[j])
					sum, squares, rows = sum+x, squares+x*x, rows+1
				}
			}
			mean := sum / rows
			if variances[j] = squares/rows - mean*mean; math.Abs(mean) > 1e-4 {
				t.Errorf("%d rows: input %d has mean %g", n, j, mean)
			}
		}
		for _, j := range []int{0, 1, 5, 6} {
			if math.Abs(variances[j]-1) > 1e-3 {
				t.Errorf("%d rows: input %d has variance %g", n, j, variances[j])
			}
		}
		if sum := variances[2] + variances[3] + variances[4]; math.Abs(sum-1) > 1e-3 {
			t.Errorf("%d rows: the indicators have variance %g together", n, sum)
		}
		if n > maxKnots {
			continue // linear interpolation between knots is not invariant
		}
		other := cloneOf(sample)
		for i := range n {
			other.Row(i)[0] = float32(math.Log(float64(other.Row(i)[0])))
		}
		q, _ := rankedPreparation(t, columns, other)
		changed := kernel.NewDense(n, q.Inputs())
		q.Apply(kernel.Gonum(), changed, other)
		for i, v := range changed.Data {
			if math.Abs(float64(v-inputs.Data[i])) > 1e-4 {
				t.Fatalf("%d rows: input %d is %g, and %g of the column's logarithm", n, i, inputs.Data[i], v)
			}
		}
	}
}

func cloneOf(x kernel.Dense) kernel.Dense {
	return kernel.Dense{Rows: x.Rows, Cols: x.Cols, Data: slices.Clone(x.Data)}
}

// A survey's result with impossible knots is damaged.
func TestDamagedRanks(t *testing.T) {
	columns, sample := mixedSample(65)
	_, tensors := rankedPreparation(t, columns, sample)
	for _, change := range []struct {
		tensor string
		at     int
		to     float32
	}{
		{statistics.TensorKnotCounts, 0, -1}, {statistics.TensorKnotCounts, 0, 1e9}, {statistics.TensorKnotCounts, 2, 1},
		{statistics.TensorKnots, 0, float32(math.Inf(1))}, {statistics.TensorKnots, 2, -1e9}, {statistics.TensorMissing, 0, 6},
		{statistics.TensorMissing, 0, 0.5},
	} {
		damaged := slices.Clone(tensors)
		for i, tensor := range damaged {
			if tensor.Name == change.tensor {
				damaged[i].Data = slices.Clone(tensor.Data)
				damaged[i].Data[change.at] = change.to
			}
		}
		if _, err := New(schemas.Prepare{Scale: ScaleRanks}, damaged); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%+v: %v", change, err)
		}
	}
}
