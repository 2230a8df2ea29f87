package solve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// surveyTable is raw rows with weights. NaN is a missing value.
type surveyTable struct {
	rows    [][]float64
	weights []float64
}

// surveyed returns the sums over the table about a shift, as a worker adds them.
func (t surveyTable) surveyed(shift []float64) DenseSums {
	d := len(shift)
	splits := make([]float64, examples.Splits*statistics.LossFields)
	first, squares, present, gram := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d*(d+1)/2)
	for n, row := range t.rows {
		w := t.weights[n]
		splits[0] += w
		splits[1]++
		z := make([]float64, d)
		for j, v := range row {
			if !math.IsNaN(v) {
				z[j] = v - shift[j]
				present[j] += w
			}
		}
		for i, at := 0, 0; i < d; i++ {
			first[i] += w * z[i]
			squares[i] += w * z[i] * z[i]
			for j := 0; j <= i; j++ {
				gram[at] += w * z[i] * z[j]
				at++
			}
		}
	}
	s := DenseSums{Labels: []string{"a", "b"}, Shift: make([]float32, d), Sums: wire.Tensors[float64]{
		{Name: statistics.FieldSplits, Shape: []int{examples.Splits, statistics.LossFields}, Data: splits},
		wire.Vector(statistics.FieldSums, first), wire.Vector(statistics.FieldSquares, squares),
		wire.Vector(statistics.FieldPresent, present), wire.Vector(statistics.FieldGram, gram),
	}}
	for j, v := range shift {
		s.Shift[j] = float32(v)
	}
	return s
}

// rowsOf draws n rows of d features with different deviations and covariances.
func rowsOf(seed uint64, n, d int, weight func(*rand.Rand) float64) (t surveyTable) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		row, common := make([]float64, d), r.NormFloat64()
		for j := range row {
			row[j] = float64(float32(10*float64(j) + float64(j+1)*(r.NormFloat64()+common)))
		}
		t.rows, t.weights = append(t.rows, row), append(t.weights, weight(r))
	}
	return t
}

func ones(*rand.Rand) float64 { return 1 }

// Constant features are not in any component. Components beyond the number of other features are zero.
func TestComponentsOfFeaturesThatNeverChange(t *testing.T) {
	const d, still = 5, 2
	data := rowsOf(1, 301, d, ones)
	for _, row := range data.rows {
		row[0], row[3] = 7, 0
	}
	for _, pca := range []int{1, d - still, d} {
		basis := assert.Must(PrepareDense(data.surveyed(data.rows[0]), false, pca))(t).Basis
		for c := range pca {
			length := 0.0
			for j := range d {
				v := float64(basis[j*pca+c])
				assert.True(t, j != 0 && j != 3 || v == 0, "%d components: feature %d has %g in component %d", pca, j, v, c)
				length += v * v
			}
			assert.Near(t, length, float64(min(1, max(0, d-still-c))), 1e-6, "%d components: the length of component %d", pca, c)
		}
	}
	for _, row := range data.rows {
		copy(row, data.rows[0])
	}
	basis := assert.Must(PrepareDense(data.surveyed(data.rows[0]), false, 2))(t).Basis
	assert.True(t, !slices.ContainsFunc(basis, func(v float32) bool { return v != 0 }), "all features are constant, but not %v", basis)
}

func TestSurveyAgainstItsDefinition(t *testing.T) {
	for _, standardize := range []bool{false, true} {
		for _, pca := range []int{0, 1, 4, 5} {
			t.Run(fmt.Sprint(standardize, pca), func(t *testing.T) {
				const d = 5
				data := rowsOf(1, 301, d, func(r *rand.Rand) float64 { return float64(1 + r.IntN(3)) })
				found := assert.Must(PrepareDense(data.surveyed(data.rows[0]), standardize, pca))(t)
				mean, deviation, weight := make([]float64, d), make([]float64, d), 0.0
				for n, row := range data.rows {
					weight += data.weights[n]
					for j, v := range row {
						mean[j] += data.weights[n] * v
					}
				}
				for n, row := range data.rows {
					for j, v := range row {
						deviation[j] += data.weights[n] * (v - mean[j]/weight) * (v - mean[j]/weight)
					}
				}
				factors := make([]float64, d)
				for j := range d {
					mean[j], deviation[j], factors[j] = mean[j]/weight, math.Sqrt(deviation[j]/weight), 1
					if standardize {
						factors[j] = 1 / deviation[j]
					}
				}
				same(t, found.Center, mean)
				same(t, found.Scale, factors)

				prepared, covariance := mat.NewDense(301, d, nil), mat.NewSymDense(d, nil)
				for n, row := range data.rows {
					for j, v := range row {
						prepared.Set(n, j, (v-mean[j])*factors[j])
					}
					covariance.SymRankOne(covariance, data.weights[n]/weight, prepared.RowView(n))
				}
				if pca > 0 {
					basis := mat.NewDense(d, pca, nil)
					for i, v := range found.Basis {
						basis.RawMatrix().Data[i] = float64(v)
					}
					checkDirections(t, covariance, basis)
				} else if found.Basis != nil {
					t.Error("there is a basis without principal components")
				}
				labels := found.Labels
				assert.Equal(t, labels, []string{"a", "b"}, "the labels")
			})
		}
	}
}

func same(t *testing.T, got []float32, want []float64) {
	t.Helper()
	assert.Need(t, len(got) == len(want), "%v, expected %v", got, want)
	for i, v := range got {
		assert.Near(t, float64(v), want[i], 1e-3*math.Abs(want[i]), "value %d", i)
	}
}

// checkDirections checks that the columns are orthonormal eigenvectors of the largest eigenvalues, in descending order, and that
// the largest component of each is positive.
func checkDirections(t *testing.T, covariance *mat.SymDense, basis *mat.Dense) {
	t.Helper()
	var eigen mat.EigenSym
	assert.Need(t, eigen.Factorize(covariance, false), "no eigenvalues")
	values := eigen.Values(nil)
	slices.Reverse(values)
	_, m := basis.Dims()
	for c := range m {
		v := basis.ColView(c)
		var product mat.VecDense
		product.MulVec(covariance, v)
		assert.Near(t, mat.Dot(v, &product), values[c], 1e-5*values[0], "the variance along direction %d", c)
		for o := range c + 1 {
			product := mat.Dot(v, basis.ColView(o))
			assert.Near(t, product, indicator(o == c), 1e-6, "the product of directions %d and %d", c, o)
		}
		low, high := mat.Min(v), mat.Max(v)
		assert.True(t, high >= -low, "the largest component of direction %d is %v", c, low)
	}
}

// Columns that are constant, always missing, or constant up to float32 rounding have factor 0. A column that is far
// from 0 and varies has another factor.
func TestConstantColumns(t *testing.T) {
	nan := math.NaN()
	data := surveyTable{rows: [][]float64{}, weights: nil}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		missing := 1e4 + float64(i%2)
		if i%5 == 0 {
			missing = nan
		}
		data.rows = append(data.rows, []float64{7, nan, 0, float64(float32(1e4 + r.NormFloat64())), missing, indicator(i == 50)})
		data.weights = append(data.weights, 1)
	}
	for _, standardize := range []bool{false, true} {
		found := assert.Must(PrepareDense(data.surveyed([]float64{7.000001, 0, 0, 1e4, 1e4, 0}), standardize, 2))(t)
		factors, center := found.Scale, found.Center
		for j, varies := range []bool{false, false, false, true, true, true} {
			assert.Equal(t, factors[j] != 0, varies, "standardize %v: the factor of column %d is not 0", standardize, j)
		}
		// the mean is over the rows in which the value is present
		assert.True(t, math.Abs(float64(center[4])-10_000.5) <= 1e-3 && center[1] == 0, "the centre is %v", center)
		for i, v := range found.Basis[:6] {
			assert.Equal(t, v, 0, "component %d of the basis at constant columns", i)
		}
	}
}

// The record lists the results in the order in which the weights' digest reads them.
func TestTensorsOfAPreparation(t *testing.T) {
	for _, components := range []int{0, 2, 3} {
		found := assert.Must(PrepareDense(rowsOf(1, 30, 3, ones).surveyed([]float64{0, 0, 0}), false, components))(t)
		var names []string
		for _, tensor := range found.Tensors(2.5) {
			names = append(names, tensor.Name)
			assert.True(t, tensor.Name != statistics.TensorSpread || tensor.Data[0] == 2.5, "the spread is %v", tensor.Data)
			assert.True(t, tensor.Name != statistics.TensorBasis || slices.Equal(tensor.Shape, []int{3, components}),
				"the basis is %v", tensor.Shape)
		}
		want := []string{statistics.TensorCenter, statistics.TensorScale, statistics.TensorBasis, statistics.TensorSpread,
			statistics.TensorLabels}
		if components == 0 {
			want = slices.Delete(want, 2, 3)
		}
		assert.Equal(t, names, want, "%d components: the names of the record", components)
	}
}

func TestSurveyErrors(t *testing.T) {
	for name, test := range map[string]struct {
		pca   int
		spoil func(*DenseSums)
		want  any
	}{
		"components":      {4, func(*DenseSums) {}, new(*WidthError)},
		"no labels":       {0, func(s *DenseSums) { s.Labels = nil }, new(*LabelsError)},
		"too many labels": {0, func(s *DenseSums) { s.Labels = make([]string, maxClasses+1) }, new(*LabelsError)},
		"no weight":       {0, func(s *DenseSums) { clear(s.Sums[0].Data) }, errNoWeight},
		"mean":            {0, func(s *DenseSums) { s.Sums[1].Data[1] = math.Inf(1) }, new(*NotFiniteError)},
		"variance":        {0, func(s *DenseSums) { s.Sums[2].Data[1] = math.NaN() }, new(*NotFiniteError)},
		"covariance":      {2, func(s *DenseSums) { s.Sums[4].Data[1] = math.Inf(1) }, new(*NotFiniteError)},
		"no moments":      {0, func(s *DenseSums) { s.Sums = s.Sums[:2] }, new(*wire.ShapeError)},
		"no covariance":   {2, func(s *DenseSums) { s.Sums = s.Sums[:4] }, new(*wire.ShapeError)},
	} {
		s := rowsOf(1, 3, 3, ones).surveyed([]float64{0, 0, 0})
		test.spoil(&s)
		_, err := PrepareDense(s, false, test.pca)
		assert.Fails(t, fmt.Errorf("%s: %w", name, err), test.want)
	}
	assert.NoError(t, CheckWidth(1, maxPCAFeatures))
}

// An error about too many labels names the keys that may be wrong, whether a survey or a chain has found them.
func TestTooManyLabelsNamesTheKeys(t *testing.T) {
	assert.NoError(t, CheckClasses(maxClasses))
	err := CheckClasses(maxClasses + 1)
	for _, want := range []string{"10001 different labels", "at most 10000", "examples.label ", "examples.classes", "examples.targets",
		"retrain.new_class_rows"} {
		assert.Fails(t, err, want)
	}
}
