package stages

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
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
	p := assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleStandard}, surveyed()))(t)
	assert.True(t, p.Width() == 3 && p.Inputs() == 3 && p.Spread == 4 && p.Labels.Len() == 2, "the preparation is %+v", p)
	x := kernel.Dense{Rows: 3, Cols: 3, Data: slices.Clone(raw)}
	p.Apply(kernel.Gonum(), x, x) // in place
	assert.Equal(t, x.Data, []float32{1, 1, 0, 0, 2, 0, 2, 0, 0}, "prepared rows")

	p = assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleStandard, PCA: 2}, surveyed()))(t)
	dst := kernel.NewDense(3, 2)
	p.Apply(kernel.Gonum(), dst, kernel.Dense{Rows: 3, Cols: 3, Data: raw})
	want := []float32{1, 3, 0, 4, 2, 2}
	assert.True(t, p.Inputs() == 2 && slices.Equal(dst.Data, want), "projected rows are %v, expected %v", dst.Data, want)
	p.Apply(kernel.Gonum(), kernel.Dense{Cols: 2}, kernel.Dense{Cols: 3})
}

func TestApplyDividesByTheLength(t *testing.T) {
	p := assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleUnit}, wire.Tensors[float32]{
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
		assert.Near(t, float64(v), float64(want[i]), 1e-6, "value %d of prepared rows", i)
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
			_, err := NewPreparation(schemas.Prepare{PCA: 2}, tensors)
			var shape *wire.ShapeError
			assert.True(t, errors.As(err, &shape) && shape.Tensor == name, "%s, absent %v: %v", name, absent, err)
		}
	}
}

// The codes of rows match their definition, for any number of rows.
func TestEncode(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, features := range [][]int{{1}, {2}, {1, 1, 1}, {1, 5, 1, 300, 2}, {256, 255}} {
		table := oracle.NewTable(random, features...)
		bins, edges := table.Bins()
		c := assert.Must(readCoder(wire.Tensors[float32]{
			wire.Matrix(statistics.TensorBins, len(features), 2, bins), wire.Vector(statistics.TensorEdges, edges),
		}, table.Width()))(t)
		for _, n := range []int{0, 1, 64, 65, 200} {
			x := table.Rows(random, n)
			before := slices.Clone(x.Data)
			got := c.AppendCodes(nil, x)
			var want []uint8
			for i := range n {
				want = append(want, table.Codes(x.Row(i))...)
			}
			assert.Equal(t, got, want, "columns of %v features: the codes of %d rows", features, n)
			got = c.AppendCodes([]uint8{1, 2}, x)
			assert.Equal(t, got, append([]uint8{1, 2}, want...), "columns of %v features: the codes of %d rows after others", features, n)
			assert.True(t, slices.EqualFunc(x.Data, before, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
				"columns of %v features: %d rows are others after they were encoded", features, n)
		}
	}
}

// A word after the 254th of its column shares the code of unknown and missing words.
func TestWordsWithoutACode(t *testing.T) {
	columns := examples.Columns{{Name: "n"}, {Name: "w"}}
	for i := range 300 {
		columns[1].Categories = append(columns[1].Categories, fmt.Sprint(i))
	}
	c := assert.Must(readCoder(LearnBins(columns, kernel.NewDense(3, 302)), 302))(t)
	x := kernel.NewDense(303, 302)
	for i := range 301 {
		x.Row(i)[1+i] = 1
	}
	for j := range x.Row(302) {
		x.Row(302)[j] = float32(math.NaN())
	}
	codes := c.AppendCodes(nil, x)
	for i := range x.Rows {
		want := 0
		if i < tree.MaxWords {
			want = i + 1
		}
		assert.Equal(t, int(codes[2*i+1]), want, "the code of word %d of 300", i)
	}
	assert.Equal(t, codes[0], 1, "the code of the only number of a column")
	assert.Equal(t, codes[2*302], 0, "the code of a missing number")
}

// The result of LearnBins tells columns of numbers from columns of words, with and without known columns.
func TestLearnBins(t *testing.T) {
	sample := kernel.Dense{Rows: 4, Cols: 5, Data: []float32{1, 1, 0, 0, 7, 2, 0, 1, 0, 7, 3, 0, 0, 1, 7, float32(math.NaN()), 0, 0, 1, 7}}
	columns := examples.Columns{{Name: "a"}, {Name: "b", Categories: []string{"x", "y"}}, {Name: "c"}}
	for _, test := range []struct {
		columns        examples.Columns
		numbers, words []int
		codes          []uint8
	}{
		{columns, []int{0, 2}, []int{1}, []uint8{1, 1, 1, 2, 2, 1, 3, 0, 1, 0, 0, 1}},
		{nil, []int{0, 1, 2, 3, 4}, nil, []uint8{1, 2, 1, 1, 1, 2, 1, 2, 1, 1, 3, 1, 1, 2, 1, 0, 1, 1, 2, 1}},
	} {
		c := assert.Must(readCoder(LearnBins(test.columns, sample), 5))(t)
		numbers, words := c.Divided()
		assert.True(t, slices.Equal(numbers, test.numbers) && slices.Equal(words, test.words) && c.Width() == len(numbers)+len(words),
			"columns of numbers %v and of words %v, expected %v and %v", numbers, words, test.numbers, test.words)
		assert.Equal(t, c.AppendCodes(nil, sample), test.codes, "codes")
	}
}

// Bins that no survey could have learnt are damage; without bins there is no coder.
func TestBinsThatCantBe(t *testing.T) {
	c, err := readCoder(nil, 3)
	assert.True(t, c == nil && err == nil, "a coder %v without bins, %v", c, err)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, test := range map[string]struct{ bins, edges []float32 }{
		"no features":            {[]float32{0, 2, 3, 1}, []float32{1, 2, 0}},
		"features below 0":       {[]float32{-1, 2, 4, 2}, []float32{1, 2, 0, 1}},
		"half a feature":         {[]float32{1.5, 2, 2, 0}, []float32{1, 2}},
		"no number of features":  {[]float32{nan, 2, 2, 0}, []float32{1, 2}},
		"too many features":      {[]float32{1, 2, 3, 1}, []float32{1, 2, 0}},
		"too few features":       {[]float32{1, 2, 1, 1}, []float32{1, 2, 0}},
		"very many features":     {[]float32{inf, 2, 2, 0}, []float32{1, 2}},
		"edges below 0":          {[]float32{1, -1, 2, 0}, nil},
		"half an edge":           {[]float32{1, 0.5, 2, 0}, []float32{1}},
		"no number of edges":     {[]float32{1, nan, 2, 0}, nil},
		"very many edges":        {[]float32{1, 1e30, 2, 0}, []float32{1}},
		"too few edges":          {[]float32{1, 2, 2, 0}, []float32{1}},
		"too many edges":         {[]float32{1, 0, 2, 0}, []float32{1}},
		"edges that descend":     {[]float32{1, 2, 2, 0}, []float32{2, 1}},
		"equal edges":            {[]float32{1, 2, 2, 0}, []float32{1, 1}},
		"an edge that is none":   {[]float32{1, 2, 2, 0}, []float32{1, nan}},
		"edges of one more word": {[]float32{1, 0, 2, 1}, []float32{0}},
		"other edges of words":   {[]float32{3, 1}, []float32{0.5}},
	} {
		c, err := readCoder(wire.Tensors[float32]{wire.Matrix(statistics.TensorBins, len(test.bins)/2, 2, test.bins),
			wire.Vector(statistics.TensorEdges, test.edges)}, 3)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%s: a coder %v, %v", name, c, err)
	}
	good := wire.Tensors[float32]{wire.Matrix(statistics.TensorBins, 1, 2, []float32{1, 0}), wire.Vector(statistics.TensorEdges, []float32{})}
	assert.Must(readCoder(good, 1))(t)
	for name, bad := range map[string]wire.Tensors[float32]{
		"no edges":          good[:1],
		"bins of one value": {wire.Matrix(statistics.TensorBins, 2, 1, []float32{1, 0}), good[1]},
		"a vector of bins":  {wire.Vector(statistics.TensorBins, []float32{1, 0}), good[1]},
		"a matrix of edges": {good[0], wire.Matrix(statistics.TensorEdges, 1, 0, []float32{})},
	} {
		c, err := readCoder(bad, 1)
		assert.True(t, errors.As(err, new(*wire.ShapeError)), "%s: a coder %v, %v", name, c, err)
	}
}

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
		assert.Equal(t, Overflows(test.prepare, test.row), test.want, "%d: %+v, row %v overflows", i, test.prepare, test.row)
	}
}

// A row whose inputs overflow has none, and does not affect the others.
func TestInputsThatOverflow(t *testing.T) {
	tensors := wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{1, 0}), wire.Vector(statistics.TensorScale, []float32{1, 1e10}),
		wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}
	p := assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleStandard}, tensors))(t)
	x := kernel.Dense{Rows: 4, Cols: 2, Data: []float32{2, 3e38, 3, 1, -1e16, 1, 5, 0}}
	overflowed := p.Apply(kernel.Gonum(), x, x)
	assert.Equal(t, x.Data, []float32{0, 0, 2, 1e10, 0, 0, 4, 0}, "inputs")
	assert.Equal(t, overflowed, []int{0, 2}, "the rows that overflow")

	p = assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleNone}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorFactors, []float32{1, 1e10}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}))(t)
	rows, sparse := examples.SparseRows{Ends: []int{1, 3}, Indices: []int32{0, 0, 1}, Values: []float32{7, 1, 1e7}}, kernel.Sparse{}
	overflowed = p.ApplySparse(&sparse, &rows)
	assert.True(t, slices.Equal(overflowed, []int{1}) && sparse.Rows == 2 && slices.Equal(sparse.Values, []float32{7}),
		"inputs %+v, of which %v overflow", sparse, overflowed)
}

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
	return assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleRanks}, tensors))(t), tensors
}

// mixedSample returns a sample with a heavy-tailed column, one with missing values, one of three words, and one of few values.
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
		assert.Need(t, p.Inputs() == 7, "%d rows: %d inputs, expected 7", n, p.Inputs()) // a column has missing values
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
			variances[j] = squares/rows - mean*mean
			assert.Near(t, mean, 0, 1e-4, "%d rows: the mean of input %d", n, j)
		}
		for _, j := range []int{0, 1, 5, 6} {
			assert.Near(t, variances[j], 1, 1e-3, "%d rows: the variance of input %d", n, j)
		}
		assert.Near(t, variances[2]+variances[3]+variances[4], 1, 1e-3, "%d rows: the variance of the indicators together", n)
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
			assert.Near(t, float64(v), float64(inputs.Data[i]), 1e-4, "%d rows: input %d, and of the column's logarithm", n, i)
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
		_, err := NewPreparation(schemas.Prepare{Scale: ScaleRanks}, damaged)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%+v: %v", change, err)
	}
}

// Equal rows of the sample are prepared to equal bits, at any position.
func TestEqualRowsArePreparedEqually(t *testing.T) {
	const n = 200
	blas := assert.Must(kernel.Open(""))(t)
	for _, d := range []int{3, 63, 64, 65, 784} {
		for _, components := range []int{0, 2} {
			r := rand.New(rand.NewPCG(uint64(d), 1))
			draw := func(n int) []float32 {
				values := make([]float32, n)
				for i := range values {
					values[i] = r.Float32()
				}
				return values
			}
			center, scale, basis := draw(d), draw(d), draw(d*components)
			usual, sample := draw(d), kernel.NewDense(n, d)
			for i := range n {
				copy(sample.Row(i), usual)
				if i%7 == 3 {
					copy(sample.Row(i), draw(d))
				}
			}
			prepared := &Preparation{Center: center, Scale: scale, Basis: kernel.Dense{Rows: d, Cols: components, Data: basis}}
			rows := prepared.Sample(blas, sample)
			for i := range n {
				assert.Need(t, i%7 == 3 || slices.Equal(rows.Row(i), rows.Row(0)),
					"%d features, %d components: row %d is %v, row 0 is %v", d, components, i, rows.Row(i), rows.Row(0))
			}
		}
	}
}

// prepareSparse prepares rows by the factors of their columns.
func prepareSparse(t *testing.T, p schemas.Prepare, factors []float32, rows *examples.SparseRows) kernel.Sparse {
	t.Helper()
	prepared := assert.Must(NewPreparation(p, wire.Tensors[float32]{
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
		assert.Need(t, got.Rows == 3 && got.Cols == 3 && slices.Equal(got.Starts, []int{0, 2, 2, 3}) &&
			slices.Equal(got.Columns, []int32{0, 2, 1}), "%+v: %+v", test.prepare, got)
		for i, want := range test.want {
			assert.Near(t, float64(got.Values[i]), want, 1e-6, "%+v: value %d", test.prepare, i)
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
		assert.Need(t, err == nil && there, "%v %v", there, err)
		prepared := assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleUnit}, append(found.Tensors(occurring), rest...)))(t)
		assert.True(t, prepared.Width() == 9001 && prepared.Inputs() == 5 && slices.Equal(prepared.Factors.Kept(), []int32{0, 1, 2, 3, 9000}),
			"%d features, %d inputs, columns %v", prepared.Width(), prepared.Inputs(), prepared.Factors.Kept())
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
		_, err := NewPreparation(schemas.Prepare{}, append(damaged, rest...))
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%s: %v, expected ErrDamaged", name, err)
	}
}

// Settings that do not support sparse rows are rejected, and likewise for dense rows.
func TestRowsAreRefused(t *testing.T) {
	for _, p := range []schemas.Prepare{{Scale: ScaleStandard}, {Scale: ScaleNone, PCA: 3}} {
		err := CheckRows(p, true)
		assert.True(t, errors.As(err, new(*DenseError)) && CheckRows(p, false) == nil, "%+v: %v, expected a DenseError", p, err)
	}
	for _, p := range []schemas.Prepare{{MinRows: 2}, {Values: ValuesLog}, {IDF: 1}} {
		err := CheckRows(p, false)
		assert.True(t, errors.As(err, new(*SparseError)) && CheckRows(p, true) == nil, "%+v: %v, expected a SparseError", p, err)
	}
	for _, factors := range [][]float32{{}, {0, 0}, {1, -1}, {1, float32(math.NaN())}, {float32(math.Inf(1))}} {
		_, err := NewPreparation(schemas.Prepare{}, wire.Tensors[float32]{
			wire.Vector(statistics.TensorFactors, factors), wire.Words[float32](statistics.TensorLabels, []string{"a"}),
		})
		assert.True(t, errors.Is(err, wire.ErrDamaged), "factors %v: %v, expected ErrDamaged", factors, err)
	}
}
