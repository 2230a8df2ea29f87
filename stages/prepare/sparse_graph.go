package prepare

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

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
	f, d := p.Factors, len(p.Factors.numbers.center)
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
		number := g.Node("Mul", g.Node("Sub", values, g.Node("Gather", g.Row(f.numbers.center), place)),
			g.Node("Gather", g.Row(f.numbers.scale), place))
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
