package online

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Intercept represents the intercept among the columns of examples: it follows them.
const Intercept = int32(examples.MaxColumns)

// Terms are the contribution of an increment to the sums of a stage: curvature or counts, of the columns of the
// examples that occur in it. All are multiples of the grid of the sums. They must not be changed.
type Terms struct {
	Columns []int32   // m, ascending; the last may be [Intercept]
	Values  []float64 // m × k
}

// Sums are the state of a stage's window: D, or the counts N. Terms are multiples of a grid, so their sums are exact
// below 2⁵³ times the grid: they depend only on the increments of the window, not on earlier additions and
// subtractions.
type Sums struct {
	Prior  float64 // D without rows, in the penalised columns
	Grid   float64 // a power of 2
	k      int
	slots  map[int32]int // the columns that have sums, numbered in the order of insertion
	blocks [][]float64   // blockRows × k each, without the prior: appending to a single matrix would copy megabytes
	totals []float64     // k: over all columns but the intercept
}

// NewSums returns empty sums of k classes.
func NewSums(k int, prior, grid float64) *Sums {
	return &Sums{Prior: prior, Grid: grid, k: k, slots: map[int32]int{}, totals: make([]float64, k)}
}

// Row returns the sums of a column of the examples (k), without the prior; nil: it has none.
func (s *Sums) Row(column int32) []float64 {
	at, any := s.slots[column]
	if !any {
		return nil
	}
	return s.at(at)
}

// blockRows is the number of rows of a block of sums.
const blockRows = 1024

// at returns the sums of a slot (k).
func (s *Sums) at(slot int) []float64 {
	return s.blocks[slot/blockRows][slot%blockRows*s.k:][:s.k]
}

// gridBits is the resolution of the grid relative to the mean contribution of a row over all columns. Terms are kept as
// float32, so the grid adds little rounding; sums are exact up to 2²⁵ such rows.
const gridBits = 28

// GridOf returns the grid of sums, given the sum of the absolute values of all terms over rows of some weight.
func GridOf(total, weight float64) float64 {
	if !(total > 0 && weight > 0) || math.IsInf(total/weight, 1) {
		return math.Exp2(-gridBits)
	}
	return math.Exp2(math.Ceil(math.Log2(total/weight)) - gridBits)
}

// Total returns the sum of the absolute values of terms.
func Total(o statistics.Occurring) (total float64) {
	for _, v := range o.Values {
		total += math.Abs(v)
	}
	return total
}

// Terms rounds the sums over an increment's rows, whose weights were multiplied by weight, to the grid. Columns with
// zero sums are omitted. columns are the columns of the examples, in the order of the block.
func (s *Sums) Terms(o statistics.Occurring, columns []int32, weight float64) (t Terms) {
	k, finer := s.k, 1/s.Grid // a power of 2 too: a product has the bits of the quotient
	t = Terms{Columns: make([]int32, 0, len(o.Columns)), Values: make([]float64, 0, len(o.Columns)*k)}
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

// add returns the sums of a column (k), which are 0 if it has had none.
func (s *Sums) add(column int32) []float64 {
	at, had := s.slots[column]
	if !had {
		at = len(s.slots)
		if s.slots[column] = at; at == blockRows*len(s.blocks) {
			s.blocks = append(s.blocks, make([]float64, blockRows*s.k))
		}
	}
	return s.at(at)
}

// Add adds the terms of an increment, times a weight.
func (s *Sums) Add(weight float64, t Terms) {
	for i, column := range t.Columns {
		to := s.add(column)
		for class, v := range t.Values[i*s.k:][:s.k] {
			to[class] += weight * v
			if column != Intercept {
				s.totals[class] += weight * v
			}
		}
	}
}

// Totals returns the sums over all columns but the intercept (k).
func (s *Sums) Totals() []float64 { return slices.Clone(s.totals) }

// Clear empties s.
func (s *Sums) Clear() {
	clear(s.slots)
	for _, block := range s.blocks {
		clear(block)
	}
	clear(s.totals)
}

// appendRow appends D of a column of the examples.
func (s *Sums) appendRow(to []float64, column int32) []float64 {
	prior := s.Prior
	if column == Intercept {
		prior = 0
	}
	row := s.Row(column)
	for class := range s.k {
		v := prior
		if row != nil {
			v += row[class]
		}
		to = append(to, v)
	}
	return to
}

// Merged returns the terms of increments that are merged into one.
func Merged(a, b Terms, k int) (sum Terms) {
	for len(a.Columns) > 0 || len(b.Columns) > 0 {
		switch {
		case len(b.Columns) == 0 || len(a.Columns) > 0 && a.Columns[0] < b.Columns[0]:
			sum.Columns, sum.Values = append(sum.Columns, a.Columns[0]), append(sum.Values, a.Values[:k]...)
			a = Terms{Columns: a.Columns[1:], Values: a.Values[k:]}
		case len(a.Columns) == 0 || b.Columns[0] < a.Columns[0]:
			sum.Columns, sum.Values = append(sum.Columns, b.Columns[0]), append(sum.Values, b.Values[:k]...)
			b = Terms{Columns: b.Columns[1:], Values: b.Values[k:]}
		default:
			sum.Columns = append(sum.Columns, a.Columns[0])
			for class := range k {
				sum.Values = append(sum.Values, a.Values[class]+b.Values[class])
			}
			a = Terms{Columns: a.Columns[1:], Values: a.Values[k:]}
			b = Terms{Columns: b.Columns[1:], Values: b.Values[k:]}
		}
	}
	return sum
}
