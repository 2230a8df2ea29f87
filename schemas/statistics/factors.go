package statistics

import (
	"fmt"
	"iter"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Factors are the factors of the columns of sparse rows, determined by a survey. Columns without a factor are left out.
type Factors struct {
	Columns []int32   // m, ascending
	Values  []float32 // m, positive
	Width   int       // d, of a vector of all columns
	vector  []float32 // d, in place of Columns and Values, which take 80 MB for ten million columns; 0: the column is left out
}

// Each yields the columns, ascending, and their factors.
func (f *Factors) Each() iter.Seq2[int32, float32] {
	return func(yield func(int32, float32) bool) {
		for j, v := range f.vector {
			if v != 0 && !yield(int32(j), v) {
				return
			}
		}
		for i, column := range f.Columns {
			if !yield(column, f.Values[i]) {
				return
			}
		}
	}
}

// Listed returns the factors with Columns and Values.
func (f *Factors) Listed() Factors {
	if f.vector == nil {
		return *f
	}
	n := f.Count()
	listed := Factors{Columns: make([]int32, 0, n), Values: make([]float32, 0, n), Width: f.Width}
	for column, v := range f.Each() {
		listed.Columns, listed.Values = append(listed.Columns, column), append(listed.Values, v)
	}
	return listed
}

// Count returns the number of columns that have a factor.
func (f *Factors) Count() (n int) {
	for _, v := range f.vector {
		if v != 0 {
			n++
		}
	}
	return n + len(f.Columns)
}

// FactorsOf reads factors in either form: a vector of all columns or, in a chain, only the columns that have one, so that the size of a
// version depends on the columns that it has met. there is false without any. An error describes the invalid tensor.
func FactorsOf(t wire.Tensors[float32]) (f Factors, there bool, err error) {
	if f.vector, err = t.Optional(TensorFactors, -1); err != nil || f.vector != nil {
		f.Width = len(f.vector)
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

// All returns the factor of each column (d); 0: the column is left out.
func (f *Factors) All() []float32 {
	all := make([]float32, f.Width)
	for column, v := range f.Each() {
		all[column] = v
	}
	return all
}

// Tensors returns the factors as a vector of all columns, or only of those that have one.
func (f *Factors) Tensors(occurring bool) wire.Tensors[float32] {
	if !occurring {
		return wire.Tensors[float32]{wire.Vector(TensorFactors, f.All())}
	}
	listed := f.Listed()
	return wire.Tensors[float32]{InputsTensor(TensorFactorColumns, listed.Columns), wire.Vector(TensorFactorValues, listed.Values)}
}
