package statistics

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Names of sums over sparse rows with one row for each column of the block that occurs, ascending: the column number, and its sums. Their
// size depends on the rows, not on the number of columns.
const (
	FieldGradient  = "gradient"  // [m, 1+k], visit of an update: Σ w x (y − g)ᵀ
	FieldCurvature = "curvature" // [m, 1+k], some visits: Σ w x² h, where h is the second derivative of the loss in each score
	FieldReach     = "reach"     // [m, 2], first visit: Σ w |x| |row|₁
	FieldCounted   = "counted"   // [m, 1+k], visit of an update to a class_counts stage: Σ w x yᵀ
	// [m, 1+k], terms of an increment: curvature at the final weights of the run, or counts
	FieldOccurring = "occurring"
)

// Occurring is the name of the part of a sum in memory that belongs to an increment on sparse rows: see [FieldOccurring].
func (i Increment) Occurring() string { return i.name(FieldOccurring) }

// ByColumn reports whether a field has a row for each column that occurs.
func ByColumn(name string) bool {
	switch name {
	case FieldGradient, FieldCurvature, FieldReach, FieldCounted, FieldOccurring:
		return true
	}
	return strings.HasPrefix(name, FieldOccurring+"/")
}

// Occurring is a matrix with only the rows of columns that occur.
type Occurring struct {
	Columns []int32   // m, ascending
	Values  []float64 // m × k
}

// Tensor makes the tensor of the matrix, given k.
func (o Occurring) Tensor(name string, k int) wire.Tensor[float64] {
	data := make([]float64, 0, len(o.Columns)*(1+k))
	for i, column := range o.Columns {
		data = append(append(data, float64(column)), o.Values[i*k:(i+1)*k]...)
	}
	return wire.Matrix(name, len(o.Columns), 1+k, data)
}

// OccurringOf is the inverse of [Occurring.Tensor], for a block of p columns. Without the tensor, no column occurs. An error describes the
// invalid tensor.
func OccurringOf(t wire.Tensors[float64], name string, p, k int) (o Occurring, err error) {
	data, err := t.Optional(name, -1, 1+k)
	if data == nil {
		return o, err
	}
	m := len(data) / (1 + k)
	o = Occurring{make([]int32, m), make([]float64, 0, m*k)}
	last := -1.0
	for i := range m {
		row := data[i*(1+k) : (i+1)*(1+k)]
		if column := row[0]; !(column > last && column < float64(p)) || column != math.Trunc(column) {
			return o, fmt.Errorf("%w: column %v of the tensor %s, after %v of %d", wire.ErrDamaged, column, name, last, p)
		}
		last = row[0]
		o.Columns[i], o.Values = int32(last), append(o.Values, row[1:]...)
	}
	return o, nil
}

// Record makes the record of the terms that a chain keeps of an increment at a stage of k classes: the matrix. Its visit is the index of
// the increment among those that the run visited.
func (o Occurring) Record(id wire.Identity, k int) *wire.Record[float64] {
	return &wire.Record[float64]{Identity: id, Tensors: wire.Tensors[float64]{o.Tensor(FieldOccurring, k)}}
}

// SingleRecord makes the record of the terms in single precision, which takes half as many bytes; nil if a number is not exact in it. Terms
// of one increment are exact; sums of terms may not be.
func (o Occurring) SingleRecord(id wire.Identity, k int) *wire.Record[float32] {
	double := o.Tensor(FieldOccurring, k)
	data := make([]float32, len(double.Data))
	for i, v := range double.Data {
		if data[i] = float32(v); float64(data[i]) != v {
			return nil
		}
	}
	return &wire.Record[float32]{Identity: id, Tensors: wire.Tensors[float32]{wire.Matrix(FieldOccurring, len(o.Columns), 1+k, data)}}
}

// OccurringTermsOf is the inverse of [Occurring.Record] and [Occurring.SingleRecord], for p columns and k classes. An error wraps
// [wire.ErrDamaged].
func OccurringTermsOf(r *wire.Record[float64], p, k int) (Occurring, error) {
	o, err := OccurringOf(r.Tensors, FieldOccurring, p, k)
	if err != nil {
		err = r.Damaged(err)
	}
	return o, err
}

// OccurringSums configures how the terms of increments on sparse rows are summed at a stage, from the last full run on.
type OccurringSums struct {
	wire.Identity
	Summed []float64 `tensor:"summed"` // Prior, Grid
}

// Prior returns the initial sum of curvature, in columns that the ridge applies to.
func (s *OccurringSums) Prior() float64 { return s.Summed[0] }

// Grid returns the power of 2 that each term is a multiple of.
func (s *OccurringSums) Grid() float64 { return s.Summed[1] }

// FieldSummed is the tensor of [OccurringSums].
const FieldSummed = "summed" // [2]: prior, grid

// Check returns an error for impossible numbers.
func (s *OccurringSums) Check() error {
	if len(s.Summed) != 2 || !(s.Prior() >= 0 && s.Grid() > 0) {
		return fmt.Errorf("a prior and a grid of %v", s.Summed)
	}
	return nil
}

// Factors are the factors of the columns of sparse rows, determined by a survey. Columns without a factor are left out.
type Factors struct {
	Columns []int32   // m, ascending
	Values  []float32 // m, positive
	Width   int       // d, of a vector of all columns
}

// FactorsOf reads factors in either form: a vector of all columns or, in a chain, only the columns that have one, so that the size of a
// version depends on the columns that have occurred. there is false without factors. An error describes the invalid tensor.
func FactorsOf(t wire.Tensors[float32]) (f Factors, there bool, err error) {
	vector, err := t.Optional(TensorFactors, -1)
	if err != nil || vector != nil {
		f.Width = len(vector)
		for column, v := range vector {
			if v != 0 {
				f.Columns, f.Values = append(f.Columns, int32(column)), append(f.Values, v)
			}
		}
		return f, true, err
	}
	if f.Columns, err = InputsOf(t, TensorFactorColumns, examples.MaxColumns); err != nil || f.Columns == nil {
		return f, err != nil, err
	}
	if f.Values, err = t.Shaped(TensorFactorValues, len(f.Columns)); err != nil {
		return f, true, err
	}
	if i := slices.Index(f.Values, 0); i >= 0 {
		return f, true, fmt.Errorf("%w: column %d has factor 0 in the tensor %s", wire.ErrDamaged, f.Columns[i], TensorFactorValues)
	}
	if n := len(f.Columns); n > 0 {
		f.Width = int(f.Columns[n-1]) + 1
	}
	return f, true, nil
}

// Tensors returns the factors as a vector of all columns (0: the column is left out), or only of the columns that have one.
func (f *Factors) Tensors(occurring bool) wire.Tensors[float32] {
	if occurring {
		return wire.Tensors[float32]{InputsTensor(TensorFactorColumns, f.Columns), wire.Vector(TensorFactorValues, f.Values)}
	}
	all := make([]float32, f.Width)
	for i, column := range f.Columns {
		all[column] = f.Values[i]
	}
	return wire.Tensors[float32]{wire.Vector(TensorFactors, all)}
}

// inputDigit is the base in which the number of an input is written: float32 can't represent all numbers.
const inputDigit = 4096

// InputsTensor is the inverse of [InputsOf].
func InputsTensor(name string, inputs []int32) wire.Tensor[float32] {
	digits := make([]float32, 0, 2*len(inputs))
	for _, j := range inputs {
		digits = append(digits, float32(j/inputDigit), float32(j%inputDigit))
	}
	return wire.Matrix(name, len(inputs), 2, digits)
}

// InputsOf reads the numbers of inputs, below a limit, from a tensor; nil without it. They ascend.
func InputsOf(t wire.Tensors[float32], name string, of int) ([]int32, error) {
	digits, err := t.Optional(name, -1, 2)
	if digits == nil {
		return nil, err
	}
	inputs := make([]int32, len(digits)/2)
	for i := range inputs {
		a, b := digits[2*i], digits[2*i+1]
		within := a >= 0 && b >= 0 && a <= examples.MaxColumns/inputDigit && b < inputDigit
		if !within || a != float32(int32(a)) || b != float32(int32(b)) {
			return nil, fmt.Errorf("%w: input %v·%d + %v of the tensor %s", wire.ErrDamaged, a, inputDigit, b, name)
		}
		if inputs[i] = int32(a)*inputDigit + int32(b); int(inputs[i]) >= of || i > 0 && inputs[i] <= inputs[i-1] {
			return nil, fmt.Errorf("%w: input %d of the tensor %s, of %d inputs in ascending order", wire.ErrDamaged, inputs[i], name, of)
		}
	}
	return inputs, nil
}

// RowsOf reads the weights of the columns that occur in an update, for a block of p columns; nil if a record has none.
func RowsOf(t wire.Tensors[float32], p, k int) (columns []int32, rows []float32, err error) {
	if columns, err = InputsOf(t, TensorOccurring, p); err == nil && columns != nil {
		rows, err = t.Shaped(TensorRows, len(columns), k)
	}
	return columns, rows, err
}
