package accumulate

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// parts returns n sums over neighbouring spans of three partitions, with values that floating-point addition rounds. Some
// lack a field, some cover nothing.
func parts(r *rand.Rand, n int) []*Sum {
	var all []*Sum
	next := [3]int64{}
	for i := range n {
		p := i * 3 / n
		to := next[p] + r.Int64N(4)
		s := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{Partition: p, From: next[p], To: to}}}}
		for range to - next[p] {
			s.Count(r.IntN(5), r.Uint64())
		}
		next[p] = to
		for _, name := range []string{statistics.FieldCross, statistics.FieldGram} {
			if r.IntN(4) > 0 {
				for j, f := 0, s.Field(name, 3, 2); j < len(f); j++ {
					f[j] = r.NormFloat64() * math.Exp(4*r.NormFloat64())
				}
			}
		}
		all = append(all, s)
	}
	return all
}

func clone(s *Sum) *Sum {
	c := &Sum{Coverage: s.Coverage, occurring: s.occurring}
	c.Spans = slices.Clone(s.Spans)
	for _, f := range s.Tensors() {
		f.Data = slices.Clone(f.Data)
		c.fields = append(c.fields, f)
	}
	return c
}

// mustMerge merges copies of sums.
func mustMerge(t *testing.T, into *Sum, sums ...*Sum) *Sum {
	t.Helper()
	for _, s := range sums {
		assert.NoError(t, into.Merge(clone(s)))
	}
	return into
}

// magnitudes returns the sums of the absolute values of a field, which rounding is relative to.
func magnitudes(sums []*Sum, name string) []float64 {
	total := make([]float64, 6)
	for _, s := range sums {
		if f, ok := s.Tensors().Find(name); ok {
			for i, v := range f.Data {
				total[i] += math.Abs(v)
			}
		}
	}
	return total
}

// tree merges the sums pairwise in a random tree.
func mergeAsTree(t *testing.T, r *rand.Rand, sums []*Sum) *Sum {
	if len(sums) == 1 {
		return clone(sums[0])
	}
	cut := 1 + r.IntN(len(sums)-1)
	return mustMerge(t, mergeAsTree(t, r, sums[:cut]), mergeAsTree(t, r, sums[cut:]))
}

func TestAnySplitAndAnyOrderGivesTheSameSums(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		sums := parts(r, 3+r.IntN(20))
		want := mustMerge(t, &Sum{}, sums...)
		shuffled := slices.Clone(sums)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		got := mergeAsTree(t, r, shuffled)
		got = mustMerge(t, got, &Sum{}) // the sum over nothing changes nothing
		assert.Need(t, got.Same(want.Coverage), "seed %d: covers %+v, in order %+v", seed, got.Coverage, want.Coverage)
		for _, name := range []string{statistics.FieldCross, statistics.FieldGram} {
			a, b := got.Field(name, 3, 2), want.Field(name, 3, 2)
			for i, size := range magnitudes(sums, name) {
				assert.Near(t, a[i], b[i], 1e-14*size, "seed %d: %s[%d], and in order", seed, name, i)
			}
		}
		again := mustMerge(t, &Sum{}, sums...)
		for i, f := range again.Tensors() {
			w := want.Tensors()[i]
			assert.Need(t, f.Name == w.Name && slices.Equal(f.Data, w.Data), "seed %d: %s has other bits in the same order", seed, f.Name)
		}
	}
}

// mustEqual checks that two sums cover the same, and have the same fields with the same bits.
func mustEqual(t *testing.T, got, want *Sum) {
	t.Helper()
	assert.Need(t, got.Same(want.Coverage) && len(got.Tensors()) == len(want.Tensors()),
		"%d fields of %+v, expected %d of %+v", len(got.Tensors()), got.Coverage, len(want.Tensors()), want.Coverage)
	bits := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
	for i, f := range got.Tensors() {
		w := want.Tensors()[i]
		assert.Need(t, f.Name == w.Name && slices.Equal(f.Shape, w.Shape) && slices.EqualFunc(f.Data, w.Data, bits), "%+v, expected %+v", f, w)
	}
}

func covering(partition int, from, to int64, value float64) *Sum {
	s := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{Partition: partition, From: from, To: to}}}}
	s.Count(1, uint64(from))
	s.Field(statistics.FieldCross, 1, 1)[0] = value
	return s
}

func TestMergeRefusesOverlap(t *testing.T) {
	base := mustMerge(t, covering(0, 0, 10, 1), covering(0, 20, 30, 2), covering(1, 0, 5, 3))
	for _, other := range []*Sum{
		covering(0, 0, 10, 1), covering(0, 9, 11, 1), covering(0, 19, 21, 1), covering(0, 10, 21, 1),
		covering(0, 25, 26, 1), covering(1, 4, 100, 1), base,
	} {
		got, kept := clone(base), clone(other)
		assert.True(t, got.Merge(other) != nil, "%v overlaps %v, but was merged", other.Spans, base.Spans)
		mustEqual(t, got, base)
		mustEqual(t, other, kept)
	}
	for _, other := range []*Sum{covering(0, 10, 20, 1), covering(1, 5, 6, 1), covering(2, 0, 1, 1), covering(0, 5, 5, 1)} {
		err := clone(base).Merge(other)
		assert.True(t, err == nil, "%v does not overlap %v: %v", other.Spans, base.Spans, err)
	}
}

func TestMergeRefusesOtherShapes(t *testing.T) {
	base, other := covering(0, 0, 1, 1), &Sum{}
	other.Field(statistics.FieldGram, 1)
	other.Field(statistics.FieldCross, 1, 2)
	got := clone(base)
	shape, ok := errors.AsType[*wire.ShapeError](got.Merge(other))
	assert.True(t, ok && shape.Tensor == statistics.FieldCross, "a cross moment of 1 × 2 was merged into one of 1 × 1")
	mustEqual(t, got, base)
}

func TestFields(t *testing.T) {
	s := covering(0, 0, 1, 7)
	f, ok := s.Take(statistics.FieldCross)
	assert.True(t, ok && f.Data[0] == 7, "took %v, %v", f, ok)
	_, ok = s.Take(statistics.FieldCross)
	assert.True(t, !ok, "a field was taken twice")
	assert.Equal(t, s.Field(statistics.FieldCross, 2, 2), []float64{0, 0, 0, 0}, "an absent field")
	again := NewSum(s.Coverage, s.Tensors())
	assert.True(t, again.Same(s.Coverage) && len(again.Tensors()) == 1, "the sum of its own tensors is %+v", again)
	defer func() { assert.True(t, recover() != nil, "a field was returned in another shape") }()
	s.Field(statistics.FieldCross, 3)
}

// A field that moves has another name and the same memory, also within a sum.
func TestMovedField(t *testing.T) {
	from, to := &Sum{}, &Sum{}
	data := from.Field("a", 2, 3)
	to.Move(from, "a", "b")
	to.Move(from, "a", "none")
	to.Move(to, "b", "c")
	moved, _ := to.Tensors().Find("c")
	assert.True(t, len(from.Tensors()) == 0 && len(to.Tensors()) == 1 && &moved.Data[0] == &data[0], "%v, %v", from.Tensors(), to.Tensors())
}

// Fields of columns that occur have two dimensions: others on a topic are an error, also if both are alike.
func TestMergeOfFlatTables(t *testing.T) {
	for _, name := range []string{statistics.FieldGradient, statistics.FieldCurvature} {
		flat := func() *Sum {
			return NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Vector(name, []float64{1, 2, 3, 4})})
		}
		err := flat().Merge(flat())
		assert.True(t, errors.As(err, new(*wire.ShapeError)), "%s: %v, expected a ShapeError", name, err)
	}
}

// A part of a sum comes back after it was merged, and the fields beside it do not.
func TestParts(t *testing.T) {
	sum := &Sum{}
	for i := range 3 {
		one, part := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{From: int64(i), To: int64(i) + 1}}}}, &Sum{}
		one.Field("a", 2)[0]++
		part.Field("a", 2)[1]++
		part.Field("b", 1)[0] = float64(i)
		one.SetPart("part", part)
		assert.NoError(t, sum.Merge(one))
	}
	part := sum.Part("part")
	assert.True(t, slices.Equal(part.Field("a", 2), []float64{0, 3}) && part.Field("b", 1)[0] == 3 && len(part.Tensors()) == 2,
		"the part is %v", part.Tensors())
	assert.Equal(t, sum.Field("a", 2), []float64{3, 0}, "the field beside it")
	none := sum.Part("other")
	assert.True(t, len(none.Tensors()) == 0, "a part that was not set is %v", none.Tensors())
}

// rareColumns returns batches of sparse rows in which few of the columns occur. Some rows have no value.
func rareColumns(r *rand.Rand, columns int, ones bool, rows ...int) []kernel.Sparse {
	batches := make([]kernel.Sparse, len(rows))
	for i, n := range rows {
		b := &batches[i]
		b.Begin(columns)
		b.Ones = ones
		for range n {
			for column := r.IntN(9); column < columns; column += 1 + r.IntN(columns) {
				b.Columns, b.Values = append(b.Columns, int32(column)), append(b.Values, float32(r.NormFloat64()))
			}
			b.End()
		}
	}
	return batches
}

// sumOfRows sums what a visit does, over all columns or over those that occur.
func sumOfRows(o *Occurring, batches []kernel.Sparse, at int64) *Sum {
	const k = 3
	sum, width := &Sum{}, batches[0].Width()
	if o != nil {
		o.Begin(batches)
		sum, width = o.Sum(), len(o.Columns())
	}
	sum.Coverage = coverage.Coverage{Spans: coverage.Spans{{From: at, To: at + 1}}}
	for i, b := range batches {
		block, residuals, weights := b, kernel.NewDense(b.Rows, k), make([]float32, b.Rows)
		for j := range weights {
			weights[j] = float32(1+j) / 3
		}
		for j := range residuals.Data {
			residuals.Data[j] = float32(math.Sin(float64(1 + j + i)))
		}
		if o != nil {
			block = o.Batch(i)
		}
		kernel.AddCrossSparse(sum.Field(statistics.FieldCross, width, k), block, residuals, weights)
		kernel.AddDiagonalSparse(sum.Field(statistics.FieldDiagonal, width), sum.Field(statistics.FieldBounds, width), block, weights)
		sum.Field(statistics.FieldResidual, 2)[0] += float64(b.Rows)
		sum.Count(b.Rows, uint64(i))
	}
	return sum
}

// Sums over the columns that occur have the bits of those over all columns, however they are merged: as the first, into one of either
// kind, or spread.
func TestOccurringChangesNoBit(t *testing.T) {
	var o Occurring // its memory is used again and again
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		columns, ones := []int{63, 64, 65, 1000}[seed%4], seed%3 > 0
		segments := [][]kernel.Sparse{
			rareColumns(r, columns, ones, 5, 0, 7), rareColumns(r, columns, ones, 1), rareColumns(r, columns, ones, 0),
			rareColumns(r, columns, ones, 64, 3),
		}
		want := &Sum{}
		for i, s := range segments {
			mustMerge(t, want, sumOfRows(nil, s, int64(i)))
		}
		for way := range 3 {
			var got *Sum
			for i, s := range segments {
				kind := &o
				if way == 2 && i%2 == 1 {
					kind = nil
				}
				next := sumOfRows(kind, s, int64(i))
				switch {
				case got != nil:
					mustMerge(t, got, next)
				case way == 1:
					next.Spread()
					got = next
				default:
					got = next
				}
			}
			mustEqual(t, got, want)
		}
	}
}

// The sum of few columns has few values, and Spread twice is Spread.
func TestOccurringIsNarrow(t *testing.T) {
	var o Occurring
	batches := rareColumns(rand.New(rand.NewPCG(1, 1)), 100000, true, 63, 65)
	sum := sumOfRows(&o, batches, 0)
	values := len(batches[0].Values) + len(batches[1].Values)
	cross, _ := sum.Tensors().Find(statistics.FieldCross)
	assert.True(t, cross.Shape[0] == len(o.Columns()) && len(o.Columns()) <= values+1, "cross moment of %v for %d values", cross.Shape, values)
	b := o.Batch(0)
	assert.True(t, b.Width() == len(o.Columns()) && b.Rows == 63 && &b.Values[0] == &batches[0].Values[0], "%d × %d", b.Rows, b.Width())
	for i := range batches {
		for at, number := range o.Batch(i).Columns {
			if got := o.Columns()[number]; got != batches[i].Columns[at] || !slices.IsSorted(o.Columns()) {
				t.Fatalf("value %d of batch %d is in column %d, expected %d", at, i, got, batches[i].Columns[at])
			}
		}
	}
	sum.Spread()
	once := clone(sum)
	sum.Spread()
	mustEqual(t, sum, once)
}

// Sums of blocks of different widths don't add up, and neither is changed.
func TestOccurringOfAnotherWidth(t *testing.T) {
	var o Occurring
	r := rand.New(rand.NewPCG(1, 1))
	sum := sumOfRows(nil, rareColumns(r, 64, true, 5), 0)
	before := clone(sum)
	var shape *wire.ShapeError
	err := sum.Merge(sumOfRows(&o, rareColumns(r, 65, true, 5), 1))
	assert.Need(t, errors.As(err, &shape) && shape.Got[0] == 66, "%v, expected a ShapeError that names 66 columns", err)
	mustEqual(t, sum, before)
}

// A feature is coarse only if float32 hardly resolves neighbouring values: not small whole numbers, however little they
// differ, and not values that differ much relative to their size.
func TestFindCoarse(t *testing.T) {
	columns := []struct {
		name   string
		value  func(i int) float64
		coarse bool
	}{
		{"milliseconds", func(i int) float64 { return 1764000000000 + 1000*float64(i) }, true},
		{"one value of them", func(int) float64 { return 1764000000000 }, true},
		{"pressure", func(i int) float64 { return 101325 + 0.003*float64(i%7) }, true},
		{"years", func(i int) float64 { return 2020 + float64(i%50/49) }, false},
		{"a constant", func(int) float64 { return 0.1 }, false},
		{"identifiers", func(i int) float64 { return float64(i) * 123456789123 }, false},
		{"pixels", func(i int) float64 { return float64(i % 256) }, false},
		{"zeros", func(int) float64 { return 0 }, false},
	}
	rows := kernel.NewDense(300, len(columns))
	for i := range rows.Rows {
		for j, c := range columns {
			rows.Row(i)[j] = float32(c.value(i))
		}
	}
	found := map[int]bool{}
	for _, c := range FindCoarse(rows) {
		found[c.Feature] = true
	}
	for j, c := range columns {
		assert.Equal(t, found[j], c.coarse, "%s: coarse", c.name)
	}
}

// The covariance of patches is that of its definition, over as many sums of products as there are.
func TestCovarianceOfPatches(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	x := kernel.NewDense(rowsPerSum+63, 5)
	for i := range x.Data {
		x.Data[i] = r.Float32() + float32(i%5)
	}
	for i := range x.Rows { // columns that vary together
		x.Row(i)[4] -= x.Row(i)[1]
	}
	mean, covariance := Covariance(kernel.Gonum(), x)
	for a := range x.Cols {
		for b := range x.Cols {
			sum, of, with := 0.0, 0.0, 0.0
			for i := range x.Rows {
				of, with = of+float64(x.Row(i)[a]), with+float64(x.Row(i)[b])
				sum += float64(x.Row(i)[a]) * float64(x.Row(i)[b])
			}
			n := float64(x.Rows)
			assert.Near(t, covariance[a*x.Cols+b], sum/n-of/n*with/n, 1e-5, "the covariance of columns %d and %d", a, b)
			assert.Near(t, float64(mean[a]), of/n, 1e-5, "the mean of column %d", a)
		}
	}
}
