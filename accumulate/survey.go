package accumulate

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// AddColumns subtracts shift (d values) from raw rows (n × d) in place, with 0 for a missing value (NaN). It adds the
// weighted rows, their squares, and the weights of the values that are present. Moments about a point near the mean keep the
// digits that raw moments lose.
func (s *Sum) AddColumns(x kernel.Dense, shift, weights []float32) {
	sums := s.Field(statistics.FieldSums, x.Cols)
	squares, present := s.Field(statistics.FieldSquares, x.Cols), s.Field(statistics.FieldPresent, x.Cols)
	kernel.AddColumns(sums, squares, present, x, shift, weights)
}

// rowsPerSum is the number of rows whose products [Covariance] sums in float32: sums of so few are accurate enough.
const rowsPerSum = 1000

// Covariance returns the mean of rows (n × q), and their covariance (q × q).
func Covariance(blas *kernel.BLAS, x kernel.Dense) (mean []float32, covariance []float64) {
	q := x.Cols
	sums, products := make([]float64, q), kernel.NewDense(q, q)
	covariance = make([]float64, q*q)
	for from := 0; from < x.Rows; from += rowsPerSum {
		part := x.Slice(from, min(from+rowsPerSum, x.Rows))
		for i := range part.Rows {
			for j, v := range part.Row(i) {
				sums[j] += float64(v)
			}
		}
		blas.Gram(products, part, false)
		for i := range q {
			for j := range i + 1 {
				covariance[i*q+j] += float64(products.Data[i*q+j])
			}
		}
	}
	n := float64(max(x.Rows, 1))
	mean = make([]float32, q)
	for i := range q {
		mean[i] = float32(sums[i] / n)
		for j := range i + 1 {
			covariance[i*q+j] = covariance[i*q+j]/n - sums[i]/n*sums[j]/n
			covariance[j*q+i] = covariance[i*q+j]
		}
	}
	return mean, covariance
}

// SampleRows is the number of raw rows that the survey samples. The median of their squared distances is the scale of the kernels.
const SampleRows = 2000

// Sample holds the rows with the smallest hashes of the offered rows, which all have the same width. Samples form a commutative monoid, so
// they do not depend on how rows are split. The zero value is an empty sample of at most SampleRows rows.
type Sample struct {
	Max int // maximum number of rows; 0: SampleRows

	drawn drawn // a heap once the sample is full
	width int
	rows  []float32 // of each place (n × width)
}

// draw is the hash of a row, and its place among the rows of a sample.
type draw struct {
	hash  uint64
	place int
}

// drawn is a heap with the largest hash first.
type drawn []draw

func (d drawn) Len() int           { return len(d) }
func (d drawn) Less(i, j int) bool { return d[i].hash > d[j].hash }
func (d drawn) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d drawn) Push(any)           { panic("accumulate: a full sample does not grow") }
func (d drawn) Pop() any           { panic("accumulate: a full sample does not shrink") }

// room returns the number of rows that the sample can add without replacing one.
func (s *Sample) room() int { return cmp.Or(s.Max, SampleRows) - len(s.drawn) }

// isFull reports whether another row would replace one.
func (s *Sample) isFull() bool { return s.room() <= 0 }

// Wants reports whether the sample would keep a row with the given hash.
func (s *Sample) Wants(hash uint64) bool { return !s.isFull() || hash < s.drawn[0].hash }

// Offer adds a row if its hash is among the smallest. It copies the row. It panics if earlier rows have another width.
func (s *Sample) Offer(hash uint64, row []float32) {
	if len(s.drawn) == 0 {
		s.width = len(row)
	}
	if len(row) != s.width {
		panic(fmt.Sprintf("accumulate: a sample of rows of %d values is offered one of %d", s.width, len(row)))
	}
	if !s.isFull() {
		s.drawn, s.rows = append(s.drawn, draw{hash, len(s.drawn)}), append(s.rows, row...)
		if s.isFull() {
			heap.Init(s.drawn)
		}
		return
	}
	if hash < s.drawn[0].hash {
		copy(s.row(s.drawn[0]), row)
		s.drawn[0].hash = hash
		heap.Fix(s.drawn, 0)
	}
}

// row returns the row of a draw.
func (s *Sample) row(d draw) []float32 { return s.rows[d.place*s.width:][:s.width] }

// Expect allocates memory for rows that are about to be offered, up to the size of the sample.
func (s *Sample) Expect(rows, width int) {
	rows = min(rows, s.room())
	s.drawn, s.rows = slices.Grow(s.drawn, rows), slices.Grow(s.rows, rows*width)
}

// Merge offers all of o's rows.
func (s *Sample) Merge(o *Sample) {
	s.Expect(len(o.drawn), o.width)
	for _, d := range o.drawn {
		s.Offer(d.hash, o.row(d))
	}
}

// sorted returns the draws in the order of their hashes, and draws with equal hashes in the order of their rows.
func (s *Sample) sorted() []draw {
	draws := slices.Clone(s.drawn)
	slices.SortFunc(draws, func(a, b draw) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), slices.Compare(s.row(a), s.row(b)))
	})
	return draws
}

// Rows returns a copy of the sampled rows (n × d) in the order of their hashes.
func (s *Sample) Rows() kernel.Dense { return s.rowsOf(s.sorted()) }

// rowsOf returns a copy of the rows of draws.
func (s *Sample) rowsOf(draws []draw) kernel.Dense {
	if len(draws) == 0 {
		return kernel.Dense{}
	}
	rows := kernel.NewDense(len(draws), s.width)
	for i, d := range draws {
		copy(rows.Row(i), s.row(d))
	}
	return rows
}

// Record returns the sample as the survey record of one partition.
func (s *Sample) Record(id wire.Identity) *statistics.Sample {
	sorted := s.sorted()
	rows, draws := s.rowsOf(sorted), make([]uint64, len(sorted))
	for i, d := range sorted {
		draws[i] = d.hash
	}
	return &statistics.Sample{Identity: id, Width: rows.Cols, Rows: rows.Data, Draws: draws}
}

// MergeRecord offers the rows of a record whose hashes are not in drawn, and adds their hashes to drawn. A nil drawn
// excludes no rows. The error is a *[wire.ShapeError] for rows of another width than the sample's.
func (s *Sample) MergeRecord(r *statistics.Sample, drawn map[uint64]bool) error {
	if len(s.drawn) > 0 && len(r.Draws) > 0 && r.Width != s.width {
		return &wire.ShapeError{Tensor: statistics.FieldSample, Got: []int{len(r.Draws), r.Width}, Want: []int{-1, s.width}}
	}
	s.Expect(len(r.Draws), r.Width)
	for i, draw := range r.Draws {
		if drawn[draw] {
			continue
		}
		if drawn != nil {
			drawn[draw] = true
		}
		s.Offer(draw, r.Rows[i*r.Width:(i+1)*r.Width])
	}
	return nil
}

// CoarseFeature is a feature whose values float32 hardly resolves.
type CoarseFeature struct {
	Feature int
	Mean    float64
	Step    float64 // between neighbouring values of float32 at the mean
}

// FindCoarse returns the features of sampled raw rows (n × d) whose values are neighbouring values of float32, or one
// value near which float32 lacks some whole numbers: different numbers may have become equal.
func FindCoarse(rows kernel.Dense) (found []CoarseFeature) {
	const levels = 1024
	var values []float64
	for j := range rows.Cols {
		values = values[:0]
		for i := range rows.Rows {
			if v := float64(rows.Row(i)[j]); v == v { // not a missing value
				values = append(values, v)
			}
		}
		if len(values) < 2 {
			continue
		}
		mean, deviation := stat.PopMeanStdDev(values, nil)
		if step := stepAt(mean); deviation < levels*step && quantised(values, step) {
			found = append(found, CoarseFeature{j, mean, step})
		}
	}
	return found
}

// stepAt returns the distance of neighbouring float32 values near v.
func stepAt(v float64) float64 {
	narrow := float32(math.Abs(v))
	return float64(math.Nextafter32(narrow, math.MaxFloat32)) - float64(narrow)
}

// quantised reports whether the values are adjacent in float32, or are one value near which some whole numbers are
// missing.
func quantised(values []float64, step float64) bool {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 1 {
		return step > 1
	}
	for i, v := range values[1:] {
		if v-values[i] <= step {
			return true
		}
	}
	return false
}
