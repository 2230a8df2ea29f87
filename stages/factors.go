package stages

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Values of the key `values` under `prepare`: the first transformation of a count v.
const (
	ValuesNone   = "none"   // v
	ValuesLog    = "log1p"  // log(1+v), and -log(1-v) below 0
	ValuesSqrt   = "sqrt"   // √v, and -√-v below 0
	ValuesBinary = "binary" // 1, for any v
)

// Factors describes how the values of sparse rows are prepared: transformed according to the plan, multiplied by the
// factor of their column, and then, with [ScaleUnit], divided by the length of the row. Leading numbers skip these
// steps: they are centred and scaled. It is immutable and safe for concurrent use.
type Factors struct {
	values  string
	unit    bool
	factors []float32 // of each input (m); 0 for numbers. nil: all are 1
	groups  []group   // of columns
	width   int       // d
	kept    int       // m
}

// applyNumbers appends the inputs of the leading numbers of a mixed row, which are centred and scaled like those of dense rows, and returns
// the number of values used. A missing number is the mean.
func (p *Preparation) applyNumbers(dst *kernel.Sparse, indices []int32, values []float32) (used int) {
	for j, center := range p.Center {
		v := float32(0)
		if used < len(indices) && int(indices[used]) == j {
			v = values[used]
			used++
		}
		if v = (v - center) * p.Scale[j]; v == v && v != 0 {
			dst.Columns, dst.Values = append(dst.Columns, int32(j)), append(dst.Values, v)
		}
	}
	return used
}

// group is 64 columns, starting at a multiple of 64. A full array of inputs would take tens of megabytes for ten
// million columns.
type group struct {
	kept   uint64 // one bit per column, from the lowest; 1: the column is an input
	before int32  // number of inputs of earlier groups
}

// Input returns the input of a column of the examples; −1 if the column is not an input.
func (f *Factors) Input(column int32) int32 {
	if int(column) >= f.width {
		return -1
	}
	g, bit := f.groups[column/64], uint64(1)<<(column%64)
	if g.kept&bit == 0 {
		return -1
	}
	return g.before + int32(bits.OnesCount64(g.kept&(bit-1)))
}

// Kept returns the columns of the examples that become inputs, in the order of the inputs.
func (f *Factors) Kept() []int32 {
	columns := make([]int32, 0, f.kept+1)
	for i, g := range f.groups {
		for kept := g.kept; kept != 0; kept &= kept - 1 {
			columns = append(columns, int32(64*i+bits.TrailingZeros64(kept)))
		}
	}
	return columns
}

// newFactors returns the factors of the columns in the survey. It never omits the leading columns, which are numbers.
func newFactors(p schemas.Prepare, found statistics.Factors, numbers int) (*Factors, error) {
	if numbers > examples.MaxColumns {
		return nil, &wire.ShapeError{Tensor: statistics.TensorCenter, Got: []int{numbers}, Want: []int{examples.MaxColumns}}
	}
	width := max(found.Width, numbers)
	f := &Factors{values: p.Values, unit: p.Scale == ScaleUnit, width: width, groups: make([]group, (width+63)/64)}
	if numbers > 0 || slices.ContainsFunc(found.Values, func(factor float32) bool { return factor != 1 }) {
		f.factors = make([]float32, 0, numbers+len(found.Values))
	}
	keep := func(column int32, factor float32) {
		f.groups[column/64].kept |= 1 << (column % 64)
		if f.factors != nil {
			f.factors = append(f.factors, factor)
		}
	}
	for j := range numbers {
		keep(int32(j), 0)
	}
	for i, column := range found.Columns {
		factor := found.Values[i]
		if !(factor >= 0) || math.IsInf(float64(factor), 1) {
			return nil, fmt.Errorf("%w: the factor of column %d is %v", wire.ErrDamaged, column, factor)
		}
		if int(column) >= numbers {
			keep(column, factor)
		}
	}
	for i := range f.groups {
		f.groups[i].before = int32(f.kept)
		f.kept += bits.OnesCount64(f.groups[i].kept)
	}
	if f.kept == 0 {
		return nil, fmt.Errorf("%w: no column of the sparse rows has a factor", wire.ErrDamaged)
	}
	return f, nil
}

// all returns the factor of each column (d); 0 for an omitted column and for a number.
func (f *Factors) all() []float32 {
	all := make([]float32, f.width)
	for input, column := range f.Kept() {
		if all[column] = 1; f.factors != nil {
			all[column] = f.factors[input]
		}
	}
	return all
}

// ApplySparse writes the inputs of sparse rows (n × m) into dst. It omits columns that the survey omitted or did not
// find. It panics if the preparation is of dense rows. A row whose inputs overflow gets no inputs; ApplySparse returns
// the indices of these rows.
func (p *Preparation) ApplySparse(dst *kernel.Sparse, rows *examples.SparseRows) (overflowed []int) {
	f := p.Factors
	dst.Begin(f.kept)
	size := len(rows.Values) + rows.Len()*len(p.Center)
	dst.Columns, dst.Values = slices.Grow(dst.Columns, size), slices.Grow(dst.Values, size)
	for i := range rows.Len() {
		indices, values := rows.Row(i)
		first := len(dst.Values)
		used := p.applyNumbers(dst, indices, values)
		indices, values = indices[used:], values[used:]
		begin, square := len(dst.Values), 0.0 // of the other values, which the length covers
		for _, v := range dst.Values[first:] {
			if !(v <= maxLength && v >= -maxLength) {
				square = math.Inf(1)
			}
		}
		for at, j := range indices {
			input := f.Input(j)
			if input < 0 {
				continue
			}
			v := change(f.values, values[at])
			if f.factors != nil {
				v *= f.factors[input]
			}
			square += float64(v) * float64(v)
			dst.Columns, dst.Values = append(dst.Columns, input), append(dst.Values, v)
		}
		if row := dst.Values[begin:]; f.unit && square > 0 && !math.IsInf(square, 1) {
			scale := 1 / math.Sqrt(square)
			for at, v := range row {
				row[at] = float32(float64(v) * scale)
			}
		} else if !(square <= maxLength*maxLength) {
			dst.Columns, dst.Values = dst.Columns[:first], dst.Values[:first]
			overflowed = append(overflowed, i)
		}
		dst.End()
	}
	return overflowed
}

// change returns the transformed value.
func change(values string, v float32) float32 {
	switch values {
	case ValuesLog:
		return float32(math.Copysign(math.Log1p(math.Abs(float64(v))), float64(v)))
	case ValuesSqrt:
		return float32(math.Copysign(math.Sqrt(math.Abs(float64(v))), float64(v)))
	case ValuesBinary:
		return 1
	}
	return v
}

// SparseInputs are the inputs of sparse rows in a graph. [Preparation.AddSparse] creates them.
type SparseInputs struct {
	Values  onnx.Value // n × values of a row: the factors of weights, 0 for padding
	at      onnx.Value // the column of each, or 0
	factors *Factors
}

// AddSparse is [Preparation.ApplySparse] in a graph: it adds the inputs of rows of indices and values, both n × the
// length of the longest row. Indices that are not columns, such as -1, pad shorter rows. Mixed rows must include all
// numbers, even those that are 0.
func (p *Preparation) AddSparse(g *onnx.Graph, indices, values onnx.Value) *SparseInputs {
	f, d := p.Factors, len(p.Center)
	inside := g.Node("And", g.Node("GreaterOrEqual", indices, g.Integer(0)), g.Node("Less", indices, g.Integer(int64(f.width))))
	at := g.Node("Where", inside, indices, g.Integer(0))
	x := g.Node("Mul", addChange(g, f.values, values), g.Node("Gather", g.Row(f.all()), at))
	isNumber := g.Node("And", inside, g.Node("Less", indices, g.Integer(int64(d))))
	x = g.Node("Where", g.Node("And", inside, g.Node("Not", isNumber)), x, g.Number(0))
	if f.unit {
		x = g.Unit(x)
	}
	if d > 0 {
		place := g.Node("Where", isNumber, indices, g.Integer(0))
		number := g.Node("Mul", g.Node("Sub", values, g.Node("Gather", g.Row(p.Center), place)),
			g.Node("Gather", g.Row(p.Scale), place))
		number = g.Node("Where", g.Node("IsNaN", number), g.Number(0), number)
		x = g.Node("Where", isNumber, number, x)
	}
	return &SparseInputs{x, at, f}
}

// addChange is change in a graph.
func addChange(g *onnx.Graph, values string, x onnx.Value) onnx.Value {
	size := g.Node("Abs", x)
	switch values {
	case ValuesLog:
		return g.Node("Mul", g.Node("Sign", x), g.Node("Log", g.Node("Add", size, g.Number(1))))
	case ValuesSqrt:
		return g.Node("Mul", g.Node("Sign", x), g.Node("Sqrt", size))
	case ValuesBinary:
		return g.Node("Abs", g.Node("Sign", x))
	}
	return x
}

// AddProduct adds the products of the inputs and weights (m × k, or with one more row for the intercept): the weighted
// sum of a row's values.
func (s *SparseInputs) AddProduct(g *onnx.Graph, w kernel.Dense) onnx.Value {
	table := kernel.NewDense(s.factors.width, w.Cols)
	for column := range table.Rows {
		if input := s.factors.Input(int32(column)); input >= 0 {
			copy(table.Row(column), w.Row(int(input)))
		}
	}
	rows := g.Node("Gather", g.Floats(table.Data, table.Rows, table.Cols), s.at) // n × values of a row × k
	product := g.Node("Mul", rows, g.Node("Unsqueeze", s.Values, g.Integers(2)))
	product = g.Node("Squeeze", g.Node("ReduceSum", product, g.Integers(1)), g.Integers(1))
	if w.Rows > s.factors.kept {
		product = g.Node("Add", product, g.Row(w.Row(w.Rows-1)))
	}
	return product
}
