package solve

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// InterceptColumn represents the intercept among the columns of examples: it follows them.
const InterceptColumn = int32(examples.MaxColumns)

// SparseSums are the state of a stage's window: D, or the counts N. statistics.Occurring are multiples of a grid, so their sums are exact
// below 2⁵³ times the grid: they depend only on the increments of the window, not on earlier additions and
// subtractions.
type SparseSums struct {
	Prior  float64 // D without rows, in the penalised columns
	Grid   float64 // a power of 2
	k      int
	rows   map[int32][]float64 // the sums of each column that has any (k), without the prior
	free   []float64           // memory for the next rows
	totals []float64           // k: over all columns but the intercept
}

// NewSparseSums returns empty sums of k classes.
func NewSparseSums(k int, prior, grid float64) *SparseSums {
	return &SparseSums{Prior: prior, Grid: grid, k: k, rows: map[int32][]float64{}, totals: make([]float64, k)}
}

// Row returns the sums of a column of the examples (k), without the prior; nil: it has none.
func (s *SparseSums) Row(column int32) []float64 { return s.rows[column] }

// gridBits is the resolution of the grid relative to the mean contribution of a row over all columns. statistics.Occurring are kept as
// float32, so the grid adds little rounding; sums are exact up to 2²⁵ such rows.
const gridBits = 28

// GridOf returns the grid of sums, given the sum of the absolute values of all terms over rows with the given total weight.
func GridOf(total, weight float64) float64 {
	if !(total > 0 && weight > 0) || math.IsInf(total/weight, 1) {
		return math.Exp2(-gridBits)
	}
	return math.Exp2(math.Ceil(math.Log2(total/weight)) - gridBits)
}

// Terms returns the contribution of an increment to the sums, by column of the examples: o, the sums over its rows,
// whose weights were multiplied by weight, rounded to the grid. The last column may be [InterceptColumn]. Columns with
// zero sums are omitted. columns are the columns of the examples, in the order of the block.
func (s *SparseSums) Terms(o statistics.Occurring, columns []int32, weight float64) (t statistics.Occurring) {
	k, finer := s.k, 1/s.Grid // a power of 2 too: a product has the bits of the quotient
	t = statistics.Occurring{Columns: make([]int32, 0, len(o.Columns)), Values: make([]float64, 0, len(o.Columns)*k)}
	for i, column := range o.Columns {
		any := false
		begin := len(t.Values)
		for _, v := range o.Values[i*k : (i+1)*k] {
			if v == 0 { // true of most counts
				t.Values = append(t.Values, 0)
				continue
			}
			rounded := float64(float32(math.Round(v/weight*finer) * s.Grid))
			any = any || rounded != 0
			t.Values = append(t.Values, rounded)
		}
		if !any {
			t.Values = t.Values[:begin]
			continue
		}
		t.Columns = append(t.Columns, columns[column])
	}
	return t
}

// rowsAtOnce is the number of rows whose memory is allocated at once.
const rowsAtOnce = 1024

// Add adds the terms of an increment, times a weight.
func (s *SparseSums) Add(weight float64, t statistics.Occurring) {
	for i, column := range t.Columns {
		to := s.rows[column]
		if to == nil {
			if len(s.free) == 0 {
				s.free = make([]float64, rowsAtOnce*s.k)
			}
			to, s.free = s.free[:s.k:s.k], s.free[s.k:]
			s.rows[column] = to
		}
		for class, v := range t.Values[i*s.k:][:s.k] {
			to[class] += weight * v
			if column != InterceptColumn {
				s.totals[class] += weight * v
			}
		}
	}
}

// Totals returns the sums over all columns but the intercept (k).
func (s *SparseSums) Totals() []float64 { return slices.Clone(s.totals) }

// Clear empties s.
func (s *SparseSums) Clear() {
	clear(s.rows)
	clear(s.totals)
}

// appendRow appends D of a column of the examples.
func (s *SparseSums) appendRow(to []float64, column int32) []float64 {
	from := len(to)
	to = append(to, make([]float64, s.k)...)
	copy(to[from:], s.rows[column])
	if column != InterceptColumn {
		floats.AddConst(s.Prior, to[from:])
	}
	return to
}
