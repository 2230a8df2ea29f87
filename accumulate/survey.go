package accumulate

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// SampleRows is how many raw rows the survey samples. The median of their squared distances is the scale of the kernels.
const SampleRows = 2000

// Sample holds the rows with the smallest hashes of those offered. Samples form a commutative monoid, so the way in which
// rows were split does not matter. The zero value is an empty sample of at most SampleRows rows.
type Sample struct {
	Max int // rows to keep at most; 0: SampleRows

	rows drawn
}

type draw struct {
	hash uint64
	row  []float32
}

// drawn is a heap with the largest hash first.
type drawn []draw

func (d drawn) Len() int           { return len(d) }
func (d drawn) Less(i, j int) bool { return d[i].hash > d[j].hash }
func (d drawn) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *drawn) Push(x any)        { *d = append(*d, x.(draw)) }
func (d *drawn) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// Wants reports whether a row of that hash would be among the sample.
func (s *Sample) Wants(hash uint64) bool {
	return len(s.rows) < cmp.Or(s.Max, SampleRows) || hash < s.rows[0].hash
}

// Offer adds a row if its hash is among the smallest. It copies the row.
func (s *Sample) Offer(hash uint64, row []float32) {
	if len(s.rows) >= cmp.Or(s.Max, SampleRows) {
		if hash >= s.rows[0].hash {
			return
		}
		copy(s.rows[0].row, row)
		s.rows[0].hash = hash
		heap.Fix(&s.rows, 0)
		return
	}
	heap.Push(&s.rows, draw{hash, slices.Clone(row)})
}

// Merge offers all of o's rows.
func (s *Sample) Merge(o *Sample) {
	for _, d := range o.rows {
		s.Offer(d.hash, d.row)
	}
}

// sorted returns the rows in the order of their hashes.
func (s *Sample) sorted() []draw {
	return slices.SortedFunc(slices.Values(s.rows), func(a, b draw) int {
		switch {
		case a.hash < b.hash:
			return -1
		case a.hash > b.hash:
			return 1
		}
		return slices.Compare(a.row, b.row)
	})
}

// Rows returns a copy of the sampled rows (n × d) in the order of their hashes.
func (s *Sample) Rows() kernel.Dense {
	if len(s.rows) == 0 {
		return kernel.Dense{}
	}
	rows := kernel.NewDense(len(s.rows), len(s.rows[0].row))
	for i, d := range s.sorted() {
		copy(rows.Row(i), d.row)
	}
	return rows
}

// Record is the sample as one partition's record of the survey.
func (s *Sample) Record(id wire.Identity) *statistics.Sample {
	rows, draws := s.Rows(), make([]uint64, 0, len(s.rows))
	for _, d := range s.sorted() {
		draws = append(draws, d.hash)
	}
	return &statistics.Sample{Identity: id, Width: rows.Cols, Rows: rows.Data, Draws: draws}
}

// MergeRecord offers the rows of a record, less those that were drawn already, and adds them to these; nil: none was.
func (s *Sample) MergeRecord(r *statistics.Sample, drawn map[uint64]bool) {
	for i, draw := range r.Draws {
		if drawn[draw] {
			continue
		}
		if drawn != nil {
			drawn[draw] = true
		}
		s.Offer(draw, r.Rows[i*r.Width:(i+1)*r.Width])
	}
}

// LabelSet is the labels that were seen, and how many rows of each are fitted.
type LabelSet map[string]int64

// Add adds a label of so many fitted rows. It may have none.
func (l LabelSet) Add(label string, rows int64) { l[label] += rows }

// Merge adds all of o's labels.
func (l LabelSet) Merge(o LabelSet) {
	for label, rows := range o {
		l[label] += rows
	}
}

// Text returns the labels in the order that classes have if the configuration does not give them.
func (l LabelSet) Text() []string {
	text := slices.Collect(maps.Keys(l))
	examples.SortLabels(text)
	return text
}

// Rows returns how many fitted rows each label has, in the order of Text.
func (l LabelSet) Rows() []int64 {
	rows := []int64{}
	for _, label := range l.Text() {
		rows = append(rows, l[label])
	}
	return rows
}

// AddColumns subtracts shift (d values) from raw rows (n × d) in place, with 0 for a missing value (NaN). It adds the
// weighted rows, their squares, and the weights of the values that are present. Moments about a point near the mean keep the
// digits that raw moments lose.
func (s *Sum) AddColumns(x kernel.Dense, shift, weights []float32) {
	sums := s.Field(statistics.FieldSums, x.Cols)
	squares, present := s.Field(statistics.FieldSquares, x.Cols), s.Field(statistics.FieldPresent, x.Cols)
	kernel.AddColumns(sums, squares, present, x, shift, weights)
}
