package solve

import (
	"errors"
	"fmt"
	"math"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// ColumnSums are the survey's sums over sparse rows.
type ColumnSums struct {
	Columns []examples.ColumnRows // number of training rows where each column is not 0, by column
	Rows    int64                 // training rows
	Labels  []string              // the classes, or the names of the targets
	Task    examples.Task
	Numbers DenseSums // of the leading columns that are numbers of a table, if any
}

// PrepareSparse computes the preparation of sparse rows. A column in fewer than p.MinRows rows is omitted. Any other
// column has the factor (log((rows+1)/(its rows+1))+1)^p.IDF. Leading numbers are centred and divided by their standard
// deviations. An error may be a *LabelsError.
func PrepareSparse(p schemas.Prepare, s ColumnSums) (*Preparation, error) {
	if err := checkLabels(s.Labels, s.Task); err != nil {
		return nil, err
	}
	if s.Rows <= 0 {
		return nil, errNoWeight
	}
	numbers := &Preparation{}
	d := len(s.Numbers.Shift)
	if d > 0 {
		var err error
		if numbers, err = PrepareDense(s.Numbers, true, 0); err != nil {
			return nil, err
		}
	}
	factors := &statistics.Factors{Width: d, Columns: make([]int32, 0, len(s.Columns)), Values: make([]float32, 0, len(s.Columns))}
	for _, n := range s.Columns {
		if int(n.Rows) < p.MinRows || int(n.Column) < d {
			continue
		}
		factors.Columns, factors.Values = append(factors.Columns, n.Column), append(factors.Values, factorOf(p, n, s.Rows))
		factors.Width = int(n.Column) + 1
	}
	if factors.Width == 0 {
		if p.MinRows > 1 {
			return nil, fmt.Errorf("prepare.min_rows: no feature is in %d training rows or more: set a smaller number", p.MinRows)
		}
		return nil, errors.New("no training row has a non-zero feature")
	}
	return &Preparation{Factors: factors, Center: numbers.Center, Scale: numbers.Scale, Labels: s.Labels}, nil
}

// factorOf returns the factor of a column, given its number of rows.
func factorOf(p schemas.Prepare, n examples.ColumnRows, rows int64) float32 {
	return float32(math.Pow(math.Log(float64(rows+1)/float64(n.Rows+1))+1, p.IDF))
}

// ExtendPreparation returns the preparation of an update: that of the previous version, with factors for columns that only the new
// rows have. rows are those of the window, including the new ones. Other factors stay, as weights depend on them. The
// error is that of [statistics.FactorsOf].
func ExtendPreparation(p schemas.Prepare, before wire.Tensors[float32], found []examples.ColumnRows,
	rows int64) (wire.Tensors[float32], error) {
	known, _, err := statistics.FactorsOf(before)
	if err != nil {
		return nil, err
	}
	var all statistics.Factors
	at, grown := 0, false
	add := func(column int32, value float32) {
		all.Columns, all.Values = append(all.Columns, column), append(all.Values, value)
	}
	for _, n := range found {
		for ; at < len(known.Columns) && known.Columns[at] < n.Column; at++ {
			add(known.Columns[at], known.Values[at])
		}
		if int(n.Rows) >= p.MinRows && (at == len(known.Columns) || known.Columns[at] != n.Column) {
			add(n.Column, factorOf(p, n, rows))
			grown = true
		}
	}
	if !grown {
		return before, nil
	}
	for ; at < len(known.Columns); at++ {
		add(known.Columns[at], known.Values[at])
	}
	after := all.Tensors(true)
	for _, t := range before {
		switch t.Name {
		case statistics.TensorFactors, statistics.TensorFactorColumns, statistics.TensorFactorValues:
		default:
			after = append(after, t)
		}
	}
	return after, nil
}
