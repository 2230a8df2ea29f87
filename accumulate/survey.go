package accumulate

import (
	"maps"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

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
