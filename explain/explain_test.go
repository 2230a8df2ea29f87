package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
)

func rowsOf(columns int, values ...float32) *Rows {
	r := &Rows{Features: kernel.NewDense(len(values)/columns, columns)}
	copy(r.Features.Data, values)
	r.Numbers = make([]int64, len(values)/columns)
	return r
}

// Each row is in one slice, in the order of the values, and the slices of numbers have about as many rows each.
func TestSlicesPartitionRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, different := range []int{1, 2, 4, 5, 30, 1000} {
		values := make([]float32, 400)
		for i := range values {
			if values[i] = float32(random.IntN(different)); random.IntN(10) == 0 {
				values[i] = float32(math.NaN())
			}
		}
		rows, own := rowsOf(1, values...), &each{loss: make([]float64, 400), wrong: make([]float64, 400)}
		for i := range own.wrong {
			own.wrong[i] = float64(i % 2)
		}
		s, n, wrong := slicesOf(rows, &column{Column: examples.Column{Name: "a", Offset: 5}, to: 1}, own), 0, 0.0
		for _, slice := range s.Slices {
			n, wrong = n+slice.Rows, wrong+float64(slice.Rows)*slice.Error
			assert.True(t, different < 1000 || slice.Value == missing || slice.Rows >= 80 && slice.Rows <= 100,
				"%d rows %s", slice.Rows, slice.Value)
		}
		assert.True(t, n == 400 && math.Abs(wrong-50*400) <= 1e-6 && len(s.Slices) <= sliceNumbers+1, "%d different values: %+v", different, s)
	}
}

// Words are found in the features of their column, and those without one are other words.
func TestWords(t *testing.T) {
	c := &column{Column: examples.Column{Name: "a", Categories: []string{"x", "y"}}, from: 1, to: 4}
	nan := float32(math.NaN())
	for _, w := range []struct {
		row  []float32
		want string
	}{{[]float32{7, 1, 0, 0}, "x"}, {[]float32{7, 0, 1, 0}, "y"}, {[]float32{7, 0, 0, 1}, otherWords}, {[]float32{7, nan, nan, nan}, missing}} {
		_, got := c.word(w.row[1:])
		assert.Equal(t, got, w.want, "%v", w.row)
	}
	rows := rowsOf(4, 7, 1, 0, 0, 7, 0, 1, 0, 7, 0, 1, 0, 7, nan, nan, nan)
	for i, v := range valuesOf(rows, c) { // the most frequent first; the features of each are its own word
		_, got := c.word(v.features)
		assert.True(t, got == v.text && (i != 0 || v.text == "y" && len(v.rows) == 2), "features of %s are those of %s", v.text, got)
	}
}

// Quantiles are different values of the column, in their order, also where most rows have the same.
func TestQuantiles(t *testing.T) {
	skewed := make([]float32, 1000)
	for i := range 50 {
		skewed[950+i] = float32(1 + i)
	}
	for _, sorted := range [][]float32{{}, {3}, {1, 1, 2}, skewed} {
		values := quantiles(sorted, curvePoints)
		assert.True(t, len(values) <= curvePoints && slices.IsSorted(values) && len(slices.Compact(slices.Clone(values))) == len(values),
			"%v", values)
		for _, v := range values {
			assert.True(t, slices.Contains(sorted, v), "%v is no value of the column", v)
		}
	}
	n := len(quantiles(skewed, curvePoints))
	assert.True(t, n >= curvePoints, "%d quantiles of a column of mostly the same value", n)
}

// A deviation is that of the sample, and one permutation has none.
func TestSpread(t *testing.T) {
	mean, deviation := spread([]Measures{{1, 10}, {3, 30}})
	assert.True(t, mean == (Measures{2, 20}) && math.Abs(deviation.Error-math.Sqrt2) <= 1e-12 &&
		math.Abs(deviation.Loss-10*math.Sqrt2) <= 1e-12, "%v ± %v", mean, deviation)
	_, deviation = spread([]Measures{{1, 10}})
	assert.True(t, deviation == (Measures{}), "%v", deviation)
}

// A confident mistake counts as much as it does in a report.
func TestLossOfAConfidentMistake(t *testing.T) {
	loss := logLoss(0)
	assert.True(t, math.Abs(loss-6*math.Ln10) <= 1e-12, "the loss of a label with probability 0 is %g", loss)
}
