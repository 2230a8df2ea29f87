package survey

import (
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// NoColumnsError says that no column of sparse rows is left.
type NoColumnsError struct{ MinRows int }

func (e *NoColumnsError) Error() string {
	if e.MinRows > 1 {
		return fmt.Sprintf("prepare.min_rows: no feature is in %d training rows or more: set a smaller number", e.MinRows)
	}
	return "no training row has a feature that is not 0"
}

// ColumnSums are the survey's sums over sparse rows.
type ColumnSums struct {
	Columns []examples.ColumnRows // in how many training rows a column is not 0, in the order of the columns
	Rows    int64                 // training rows
	Labels  []string              // the classes, or the names of what is predicted
	Task    examples.Task
	Numbers DenseSums // of the columns that come first and are numbers of a table, if there are some
}

// Sparse finds the preparation of sparse rows. A column in fewer than p.MinRows rows is left out. The factor of another is
// (log((rows+1)/(its rows+1))+1)^p.IDF. Numbers that come first are centred
// and divided by their standard deviations. Errors are *LabelsError, NoWeightError and *NoColumnsError.
func Sparse(p schemas.Prepare, s ColumnSums) (*Preparation, error) {
	if err := checkLabels(s.Labels, s.Task); err != nil {
		return nil, err
	}
	if s.Rows <= 0 {
		return nil, solve.NoWeightError{}
	}
	numbers := &Preparation{}
	d := len(s.Numbers.Shift)
	if d > 0 {
		var err error
		if numbers, err = Dense(s.Numbers, true, 0); err != nil {
			return nil, err
		}
	}
	factors := make([]float32, d)
	for _, n := range s.Columns {
		if int(n.Rows) < p.MinRows || int(n.Column) < d {
			continue
		}
		for len(factors) <= int(n.Column) {
			factors = append(factors, 0)
		}
		factors[n.Column] = factorOf(p, n, s.Rows)
	}
	if len(factors) == 0 {
		return nil, &NoColumnsError{p.MinRows}
	}
	return &Preparation{Factors: factors, Center: numbers.Center, Scale: numbers.Scale, Labels: s.Labels}, nil
}

// factorOf returns the factor of a column, of so many rows.
func factorOf(p schemas.Prepare, n examples.ColumnRows, rows int64) float32 {
	return float32(math.Pow(math.Log(float64(rows+1)/float64(n.Rows+1))+1, p.IDF))
}

// Extend returns the preparation of an update: that of the version before it, with factors for columns that it does not have, but the new
// rows have. rows are those of the window, with the new ones. The factors of others stay, as weights are of inputs that they make.
func Extend(p schemas.Prepare, before wire.Tensors[float32], found []examples.ColumnRows, rows int64) wire.Tensors[float32] {
	known, _ := before.Find(statistics.TensorFactors)
	factors, grown := known.Data, false
	for _, n := range found {
		if int(n.Rows) < p.MinRows || int(n.Column) < len(known.Data) && known.Data[n.Column] != 0 {
			continue
		}
		if !grown {
			factors, grown = slices.Clone(factors), true
		}
		for len(factors) <= int(n.Column) {
			factors = append(factors, 0)
		}
		factors[n.Column] = factorOf(p, n, rows)
	}
	after := slices.Clone(before)
	for i := range after {
		if after[i].Name == statistics.TensorFactors {
			after[i] = wire.Vector(statistics.TensorFactors, factors)
		}
	}
	return after
}
