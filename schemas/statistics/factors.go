package statistics

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
