package accumulate

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
		sum, width = o.Sum(), o.Width()
	}
	sum.Coverage = coverage.Coverage{Spans: coverage.Spans{{From: at, To: at + 1}}}
	crosses := &CrossPool{}
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
		kernel.AddCrossSparse(crosses.Cross(sum, width, k), block, residuals, weights)
		kernel.AddDiagonalSparse(sum.Field(statistics.FieldDiagonal, width), sum.Field(statistics.FieldBounds, width), block, weights)
		sum.Field(statistics.FieldResidual, 2)[0] += float64(b.Rows)
		sum.Count(b.Rows, uint64(i))
	}
	return sum
}

func mustHaveBits(t *testing.T, got, want *Sum) {
	t.Helper()
	if !got.Same(want.Coverage) || len(got.Tensors()) != len(want.Tensors()) {
		t.Fatalf("%d fields of %+v, expected %d of %+v", len(got.Tensors()), got.Coverage, len(want.Tensors()), want.Coverage)
	}
	for _, w := range want.Tensors() {
		g, ok := got.Tensors().Find(w.Name)
		if !ok || !slices.Equal(g.Shape, w.Shape) {
			t.Fatalf("%s has the shape %v, expected %v", w.Name, g.Shape, w.Shape)
		}
		for i, v := range w.Data {
			if math.Float64bits(g.Data[i]) != math.Float64bits(v) {
				t.Fatalf("%s: value %d is %g, over all columns %g", w.Name, i, g.Data[i], v)
			}
		}
	}
}

// Sums over the columns that occur have the bits of those over all columns, however they are merged: as the first, into one of either
// kind, or spread over memory that held something else.
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
		pool := &CrossPool{}
		stale := &Sum{}
		for i := range pool.Cross(stale, columns+1, 3) {
			stale.fields[0].Data[i] = math.NaN()
		}
		pool.Put(stale)
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
					next.Spread(pool)
					got = next
				default:
					got = next
				}
			}
			mustHaveBits(t, got, want)
		}
	}
}

// The sum of few columns has few values, and Spread twice is Spread.
func TestOccurringIsNarrow(t *testing.T) {
	var o Occurring
	batches := rareColumns(rand.New(rand.NewPCG(1, 1)), 100000, true, 63, 65)
	sum := sumOfRows(&o, batches, 0)
	values := len(batches[0].Values) + len(batches[1].Values)
	if cross, _ := sum.Tensors().Find(statistics.FieldCross); cross.Shape[0] != o.Width() || o.Width() > values+1 {
		t.Errorf("a cross moment of %v for %d values", cross.Shape, values)
	}
	if b := o.Batch(0); b.Width() != o.Width() || b.Rows != 63 || &b.Values[0] != &batches[0].Values[0] {
		t.Errorf("a batch of %d × %d, expected %d × %d with the same values", b.Rows, b.Width(), 63, o.Width())
	}
	sum.Spread(nil)
	once := clone(sum)
	sum.Spread(&CrossPool{})
	mustHaveBits(t, sum, once)
}

// Sums of blocks of different widths don't add up, and neither is changed.
func TestOccurringOfAnotherWidth(t *testing.T) {
	var o Occurring
	r := rand.New(rand.NewPCG(1, 1))
	sum := sumOfRows(nil, rareColumns(r, 64, true, 5), 0)
	before := clone(sum)
	var shape *wire.ShapeError
	if err := sum.Merge(sumOfRows(&o, rareColumns(r, 65, true, 5), 1)); !errors.As(err, &shape) || shape.Got[0] != 66 {
		t.Fatalf("%v, expected a ShapeError that names 66 columns", err)
	}
	mustHaveBits(t, sum, before)
}

// The memory of a sum of few columns is not mistaken for that of all.
func TestPoolLeavesOccurring(t *testing.T) {
	var o Occurring
	pool := &CrossPool{}
	sum := sumOfRows(&o, rareColumns(rand.New(rand.NewPCG(1, 1)), 64, false, 5), 0)
	pool.Put(sum)
	if pool.pool.Get() != nil {
		t.Error("the pool has the cross moment of the columns that occur")
	}
}

// Columns have the numbers that they were given, by place and in the table, whatever was numbered before.
func TestNumbering(t *testing.T) {
	var n numbering
	ways := map[bool]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		columns := []int{1, 70, numberedByPlace, numberedByPlace + 1, 1 << 24}[r.IntN(5)]
		occurring := make([]int32, 1+r.IntN(2000))
		for i := range occurring {
			if occurring[i] = int32(r.IntN(columns)); r.IntN(4) > 0 { // many are near each other
				occurring[i] %= 5000
			}
		}
		n.begin(columns, len(occurring))
		ways[n.hashed]++
		want := map[int32]int32{}
		for _, column := range occurring {
			at := n.of(column)
			if *at != want[column] {
				t.Fatalf("seed %d: column %d has the number %d, expected %d", seed, column, *at, want[column])
			}
			if *at == 0 {
				*at = int32(len(want) + 1)
				want[column] = *at
			}
		}
		slices.Sort(occurring)
		n.end(slices.Compact(occurring))
	}
	if ways[true] < 5 || ways[false] < 5 || len(n.byPlace) > numberedByPlace {
		t.Errorf("%d in the table and %d by place, of %d columns", ways[true], ways[false], len(n.byPlace))
	}
}
