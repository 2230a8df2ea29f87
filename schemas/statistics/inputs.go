package statistics

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
