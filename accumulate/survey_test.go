package accumulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
)

func TestLabelSet(t *testing.T) {
	a, b := LabelSet{}, LabelSet{}
	for _, row := range []struct {
		set   LabelSet
		label string
		rows  int64
	}{{a, "10", 1}, {a, "9", 1}, {a, "10", 1}, {b, "2", 0}, {b, "9", 1}} {
		row.set.Add(row.label, row.rows)
	}
	a.Merge(b)
	if got := a.Text(); !slices.Equal(got, []string{"2", "9", "10"}) {
		t.Errorf("the labels are %v", got)
	}
	if got := a.Rows(); !slices.Equal(got, []int64{0, 2, 2}) {
		t.Errorf("the labels have %v rows", got)
	}
}

func TestAddColumns(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := kernel.Dense{Rows: 4, Cols: 3, Data: []float32{
		1, 10, nan,
		2, nan, nan,
		5, 12, nan,
		inf, 7, nan, // has weight 0
	}}
	sum := &Sum{}
	sum.AddColumns(x, []float32{1, 10, 3}, []float32{1, 2, 0.5, 0})
	if got, want := sum.Field(statistics.FieldSquares, 3), []float64{2 + 8, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("squares are %v, expected %v", got, want)
	}
	if got, want := sum.Field(statistics.FieldPresent, 3), []float64{3.5, 1.5, 0}; !slices.Equal(got, want) {
		t.Errorf("weights of present values are %v, expected %v", got, want)
	}
	if got, want := x.Data, []float32{0, 0, 0, 1, 0, 0, 4, 2, 0, inf, -3, 0}; !slices.Equal(got, want) {
		t.Errorf("centred rows are %v, expected %v", got, want)
	}
}

// Moments about the mean of the first message keep the variance of a column whose mean is 10,000 times its deviation. About
// 0, float32 would lose it.
func TestMomentsOfAColumnFarFromZero(t *testing.T) {
	const n, mean = 20_000, 1e4
	r := rand.New(rand.NewPCG(1, 1))
	x, ones := kernel.NewDense(n, 1), kernel.NewDense(n, 1)
	first, second := 0.0, 0.0
	for i := range n {
		x.Data[i], ones.Data[i] = float32(mean+r.NormFloat64()), 1
		first, second = first+(float64(x.Data[i])-mean), second+(float64(x.Data[i])-mean)*(float64(x.Data[i])-mean)
	}
	want := second/n - first/n*first/n
	for _, shift := range []float32{mean, mean + 0.03} {
		a, c := &Accumulator{BLAS: kernel.Gonum()}, kernel.Dense{Rows: n, Cols: 1, Data: slices.Clone(x.Data)}
		a.Begin(1, 1, true)
		a.Sum().AddColumns(c, []float32{shift}, ones.Data)
		for from := 0; from < n; from += 1000 {
			a.Add(c.Slice(from, from+1000), ones.Slice(from, from+1000), ones.Data[from:from+1000])
			a.AddGram(c.Slice(from, from+1000), ones.Data[from:from+1000])
		}
		sum := a.End()
		shifted := sum.Field(statistics.FieldCross, 1, 1)[0] / n
		for name, square := range map[string]float64{"squares": sum.Field(statistics.FieldSquares, 1)[0],
			"gram": sum.Field(statistics.FieldGram, 1)[0]} {
			if got := square/n - shifted*shifted; math.Abs(got-want) > 1e-5 {
				t.Errorf("about %v the variance from %s is %v, expected %v", shift, name, got, want)
			}
		}
	}
}
