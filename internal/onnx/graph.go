package onnx

import "fmt"

// Graph is a computation: nodes that read values and make others. [New] makes graphs. Nodes are added in the order of the computation. A
// graph is not safe for concurrent use.
type Graph struct {
	name            string
	nodes           []node
	constants       []constant
	inputs, outputs []port
	metadata        map[string]string
}

// Value is a tensor of the graph: its name.
type Value string

// node is one application of an operator.
type node struct {
	operator        string
	inputs, outputs []Value
	attributes      []attribute
	domain          domain
}

// domain is a set of operators.
type domain string

const (
	standard domain = ""
	learning domain = "ai.onnx.ml"
)

// attribute is a constant that belongs to a node.
type attribute struct {
	name  string
	value any // int, string, []float32, []int64 or []string
}

// constant is a tensor that the graph has from the beginning.
type constant struct {
	name   Value
	shape  []int
	values any // []float32, []float64, []int64 or []string
}

// port is an input or output of the graph: its first dimension is the number of rows, which the caller decides.
type port struct {
	name    Value
	of      Elements
	columns int // 0: a vector, with a value for each row; anyColumns: as many as the caller has
}

// anyColumns is the number of columns that the caller decides, as that of rows.
const anyColumns = -1

// length is the name of that dimension.
const length = "length"

// rows is the name of the dimension that the caller decides.
const rows = "rows"

// New returns an empty graph of that name. metadata is what the file says of it.
func New(name string, metadata map[string]string) *Graph {
	return &Graph{name: name, metadata: metadata}
}

// Input adds an input of that name, a float32 matrix with that many columns.
func (g *Graph) Input(name string, columns int) Value {
	g.inputs = append(g.inputs, port{Value(name), Float, columns})
	return Value(name)
}

// Inputs adds inputs of those names, matrices of whole numbers and of float32 values with as many columns as the caller has.
func (g *Graph) Inputs(wholes, floats string) (Value, Value) {
	g.inputs = append(g.inputs, port{Value(wholes), Integer, anyColumns}, port{Value(floats), Float, anyColumns})
	return Value(wholes), Value(floats)
}

// Output makes v an output of that name: a matrix with that many columns or, with 0 columns, a vector with a value for each row.
func (g *Graph) Output(name string, v Value, of Elements, columns int) {
	g.nodes = append(g.nodes, node{operator: "Identity", inputs: []Value{v}, outputs: []Value{Value(name)}})
	g.outputs = append(g.outputs, port{Value(name), of, columns})
}

// Node adds an application of an operator, and returns its first output.
func (g *Graph) Node(operator string, inputs ...Value) Value {
	return g.add(node{operator: operator, inputs: inputs}, 1)[0]
}

// Along is [Graph.Node] for an operator that works along an axis.
func (g *Graph) Along(axis int, operator string, inputs ...Value) Value {
	return g.add(node{operator: operator, inputs: inputs, attributes: []attribute{{"axis", axis}}}, 1)[0]
}

// Double adds the conversion of float32 values to float64.
func (g *Graph) Double(x Value) Value {
	return g.add(node{operator: "Cast", inputs: []Value{x}, attributes: []attribute{{"to", int(Double)}}}, 1)[0]
}

// add adds a node and names its outputs.
func (g *Graph) add(n node, outputs int) []Value {
	for i := range outputs {
		n.outputs = append(n.outputs, Value(fmt.Sprintf("%s/%d:%d", n.operator, len(g.nodes), i)))
	}
	g.nodes = append(g.nodes, n)
	return n.outputs
}

// Floats adds a constant tensor of that shape. The graph keeps data, which must have as many values as the shape says.
func (g *Graph) Floats(data []float32, shape ...int) Value {
	size := 1
	for _, n := range shape {
		size *= n
	}
	if size != len(data) {
		panic(fmt.Sprintf("onnx: a constant of shape %v from %d values", shape, len(data)))
	}
	return g.constant(data, shape...)
}

// Row adds a constant vector. An elementwise operator applies it to each row of a matrix.
func (g *Graph) Row(data []float32) Value { return g.Floats(data, len(data)) }

// Doubles adds a constant vector of float64 values, as [Graph.Row] does.
func (g *Graph) Doubles(data []float64) Value {
	return g.constant(data, len(data))
}

// Number adds a constant number.
func (g *Graph) Number(v float32) Value { return g.Floats([]float32{v}) }

// Integer adds a constant whole number, without dimensions.
func (g *Graph) Integer(v int64) Value { return g.constant([]int64{v}) }

// Integers adds a constant vector of whole numbers.
func (g *Graph) Integers(data ...int64) Value {
	return g.constant(data, len(data))
}

// Texts adds a constant vector of texts.
func (g *Graph) Texts(data []string) Value {
	return g.constant(data, len(data))
}

func (g *Graph) constant(values any, shape ...int) Value {
	name := Value(fmt.Sprintf("constant/%d", len(g.constants)))
	g.constants = append(g.constants, constant{name, shape, values})
	return name
}
