package accumulate

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
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

// Columns of more pages than a segment has are counted too, in whatever order they come.
func TestColumnRowsOfManyPages(t *testing.T) {
	const columns = (maxPages + 100) * columnPage
	var first, second, all ColumnRows
	want := map[int32]uint32{}
	for i := range int32(80_000) {
		row := []int32{i * 7919 % columns, columns - 1 - i%3}
		slices.Sort(row)
		row = slices.Compact(row)
		for _, column := range row {
			want[column]++
		}
		if i%3 == 0 {
			first.Add(row)
		} else {
			second.Add(row)
		}
	}
	if len(first.pages)+len(second.pages) > 2*maxPages || len(second.unpaged) == 0 {
		t.Errorf("%d and %d pages, %d columns without", len(first.pages), len(second.pages), len(second.unpaged))
	}
	second.Pack()
	all.Merge(&second)
	first.Merge(&all)
	got := map[int32]uint32{}
	for _, n := range first.Record() {
		got[n.Column] = n.Rows
	}
	if !maps.Equal(got, want) || first.Columns() != len(want) {
		t.Errorf("%d columns, %d counted, expected %d", len(got), first.Columns(), len(want))
	}
}

// However rows are split, and whether counts went through a record, the counts are the same.
func TestColumnRowsAreAMonoid(t *testing.T) {
	rows := [][]int32{{0, 5, 1023, 1024}, {}, {5}, {5, examples.MaxColumns - 1}, {1024}}
	want := []examples.ColumnRows{{Column: 0, Rows: 1}, {Column: 5, Rows: 3}, {Column: 1023, Rows: 1}, {Column: 1024, Rows: 2},
		{Column: examples.MaxColumns - 1, Rows: 1}}
	for cut := range len(rows) + 1 {
		var first, second, whole ColumnRows
		for i, row := range rows {
			if i < cut {
				first.Add(row)
			} else {
				second.Add(row)
			}
		}
		whole.MergeRecord(second.Record())
		whole.Merge(&first)
		if got := whole.Record(); !slices.Equal(got, want) {
			t.Errorf("cut at %d: %v, expected %v", cut, got, want)
		}
	}
}

// offered is a row that is offered to samples.
type offered struct {
	hash uint64
	row  []float32
}

// The sample is the rows of the smallest hashes, however the rows are split and in whatever order they are offered.
func TestSample(t *testing.T) {
	for _, n := range []int{0, 1, SampleRows - 1, SampleRows, SampleRows + 1, 3 * SampleRows} {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		all := make([]offered, n)
		for i := range all {
			all[i] = offered{r.Uint64(), []float32{float32(i), -float32(i)}}
		}
		var want []float32
		smallest := slices.SortedFunc(slices.Values(all), func(a, b offered) int { return cmp.Compare(a.hash, b.hash) })
		for _, d := range smallest[:min(n, SampleRows)] {
			want = append(want, d.row...)
		}
		for range 4 {
			r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
			split := make([]Sample, 1+r.IntN(5))
			row := make([]float32, 2)
			for _, d := range all {
				copy(row, d.row) // offered rows are copied
				split[r.IntN(len(split))].Offer(d.hash, row)
			}
			total := &Sample{}
			for i := range split {
				total.Merge(&split[i])
			}
			again := &Sample{}
			arrowtest.NoError(t, again.MergeRecord(total.Record(wire.Identity{}), nil))
			for _, s := range []*Sample{total, again} {
				if got := s.Rows(); !slices.Equal(got.Data, want) || got.Rows != min(n, SampleRows) {
					t.Fatalf("the sample has %d rows of %d, or not those of the smallest hashes", got.Rows, n)
				}
			}
			few := &Sample{Max: 1 + r.IntN(SampleRows)}
			few.Merge(total)
			if got := few.Rows(); !slices.Equal(got.Data, want[:min(len(want), 2*few.Max)]) {
				t.Fatalf("the sample has %d rows, at most %d were asked for, or not those of the smallest hashes", got.Rows, few.Max)
			}
			again.Merge(total) // shares no memory with total
			total.Offer(0, []float32{7, 7})
		}
	}
}

// A damaged record has rows of another width: they are an error, and the sample stays as it is.
func TestSampleOfOtherWidth(t *testing.T) {
	narrow, wide := &Sample{}, &Sample{}
	narrow.Offer(1, []float32{1})
	wide.Offer(2, []float32{1, 2})
	var shape *wire.ShapeError
	if err := narrow.MergeRecord(wide.Record(wire.Identity{}), nil); !errors.As(err, &shape) {
		t.Errorf("error %v", err)
	}
	if got := narrow.Rows(); !slices.Equal(got.Data, []float32{1}) {
		t.Errorf("rows %v", got.Data)
	}
	if err := narrow.MergeRecord((&Sample{}).Record(wire.Identity{}), nil); err != nil {
		t.Error(err)
	}
}
