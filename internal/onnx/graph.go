// Package onnx writes computations of float32 matrices as ONNX models, which many runtimes run:
//
//	inputs, constants ──operators──▶ outputs ──Graph.WriteTo──▶ file
//
// It does not depend on stages or links: they name their operators. The operators are those of the standard,
// https://onnx.ai/onnx/operators, in the version [OperatorSet]; sums of trees
// are of those for machine learning, https://onnx.ai/onnx/operators/index_ai_onnx_ml.html, in the version [LearningOperatorSet].
package onnx

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// OperatorSet is the version of the standard's operators. ONNX 1.13 has it, and so onnxruntime from version 1.14 on.
const OperatorSet = 18

// LearningOperatorSet is the version of the operators of machine learning, which a file with trees has too. It is as old.
const LearningOperatorSet = 3

// learning is the name of that set of operators.
const learning = "ai.onnx.ml"

// format is the version of the file's format that came with the operators.
const format = 8

// maxSize is the largest file: a message of Protocol Buffers is less than 2 GiB.
const maxSize = math.MaxInt32

// Elements is the type of a tensor's elements, by its number in the format (TensorProto.DataType).
type Elements int

// The types of elements.
const (
	Float   Elements = 1 // float32
	Integer Elements = 7
	Text    Elements = 8
	Flag    Elements = 9
	Double  Elements = 11 // float64
)

// The numbers of the fields in https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
const (
	modelFormat, modelProducer, modelGraph, modelOperators, modelMetadata protowire.Number = 1, 2, 7, 8, 14
	operatorsDomain, operatorsVersion                                     protowire.Number = 1, 2
	entryKey, entryValue                                                  protowire.Number = 1, 2
	graphNode, graphName, graphConstant, graphInput, graphOutput          protowire.Number = 1, 2, 5, 11, 12
	nodeInput, nodeOutput, nodeName, nodeOperator, nodeAttribute          protowire.Number = 1, 2, 3, 4, 5
	nodeDomain                                                            protowire.Number = 7
	attributeName, attributeInteger, attributeText, attributeFloats       protowire.Number = 1, 3, 4, 7
	attributeIntegers, attributeTexts, attributeType                      protowire.Number = 8, 9, 20
	tensorShape, tensorType, tensorTexts, tensorName, tensorBytes         protowire.Number = 1, 2, 6, 8, 9
	portName, portType                                                    protowire.Number = 1, 2
	typeTensor, typeElements, typeShape                                   protowire.Number = 1, 1, 2
	shapeDimension, dimensionSize, dimensionName                          protowire.Number = 1, 1, 2
)

// message is an encoded message of Protocol Buffers, or a part of one.
type message []byte

// field is a field of a message: a whole number (int), a text, a message, packed numbers ([]int64 or []float32), or several texts.
type field struct {
	number protowire.Number
	value  any
}

// encode returns the message with these fields.
func encode(fields ...field) (m message) {
	for _, f := range fields {
		var bytes []byte
		switch value := f.value.(type) {
		case int:
			m = protowire.AppendVarint(protowire.AppendTag(m, f.number, protowire.VarintType), uint64(value))
			continue
		case []string:
			for _, text := range value {
				m = append(m, encode(field{f.number, text})...)
			}
			continue
		case string:
			bytes = []byte(value)
		case message:
			bytes = value
		case []int64:
			for _, v := range value {
				bytes = protowire.AppendVarint(bytes, uint64(v))
			}
		case []float32:
			for _, v := range value {
				bytes = protowire.AppendFixed32(bytes, math.Float32bits(v))
			}
		}
		m = protowire.AppendBytes(protowire.AppendTag(m, f.number, protowire.BytesType), bytes)
	}
	return m
}

// Graph is a computation: nodes that read values and make others. [New] makes graphs. Nodes are added in the order of the computation. A
// graph is not safe for concurrent use.
type Graph struct {
	name                   string
	metadata               map[string]string
	nodes, inputs, outputs message
	count                  int  // of nodes
	learning               bool // there is an operator for machine learning
	constants              []constant
}

// constant is a tensor that the graph has from the beginning: a field of the graph, whose last bytes are the floats. So values of large
// constants are in memory once.
type constant struct {
	field  message
	floats []float32
}

// Value is a tensor of the graph: its name.
type Value string

// anyColumns is the number of columns that the caller decides, as that of rows.
const anyColumns = -1

// New returns an empty graph of that name. metadata is what the file says of it.
func New(name string, metadata map[string]string) *Graph {
	return &Graph{name: name, metadata: metadata}
}

// Input adds an input of that name, a float32 matrix with that many columns.
func (g *Graph) Input(name string, columns int) Value {
	g.inputs = append(g.inputs, encode(port(graphInput, name, Float, columns))...)
	return Value(name)
}

// Inputs adds inputs of those names, matrices of whole numbers and of float32 values with as many columns as the caller has.
func (g *Graph) Inputs(wholes, floats string) (Value, Value) {
	g.inputs = append(g.inputs, encode(port(graphInput, wholes, Integer, anyColumns))...)
	return Value(wholes), g.Input(floats, anyColumns)
}

// Output makes v an output of that name: a matrix with that many columns or, with 0 columns, a vector with a value for each row.
func (g *Graph) Output(name string, v Value, of Elements, columns int) {
	g.add("Identity", []Value{v}, []Value{Value(name)})
	g.outputs = append(g.outputs, encode(port(graphOutput, name, of, columns))...)
}

// port returns an input or output of the graph as a field. Its first dimension is the number of rows, which the caller decides.
func port(number protowire.Number, name string, of Elements, columns int) field {
	shape := encode(field{shapeDimension, encode(field{dimensionName, "rows"})})
	if columns == anyColumns {
		shape = append(shape, encode(field{shapeDimension, encode(field{dimensionName, "length"})})...)
	} else if columns > 0 {
		shape = append(shape, encode(field{shapeDimension, encode(field{dimensionSize, columns})})...)
	}
	tensor := encode(field{typeElements, int(of)}, field{typeShape, shape})
	return field{number, encode(field{portName, name}, field{portType, encode(field{typeTensor, tensor})})}
}

// Node adds an application of an operator, and returns its first output.
func (g *Graph) Node(operator string, inputs ...Value) Value {
	return g.add(operator, inputs, g.outputsOf(operator, 1))
}

// Along is [Graph.Node] for an operator that works along an axis.
func (g *Graph) Along(axis int, operator string, inputs ...Value) Value {
	return g.add(operator, inputs, g.outputsOf(operator, 1), attribute("axis", axis))
}

// Double adds the conversion of float32 values to float64.
func (g *Graph) Double(x Value) Value {
	return g.add("Cast", []Value{x}, g.outputsOf("Cast", 1), attribute("to", int(Double)))
}

// outputsOf returns names for the outputs of the next node.
func (g *Graph) outputsOf(operator string, n int) (outputs []Value) {
	for i := range n {
		outputs = append(outputs, Value(fmt.Sprintf("%s/%d:%d", operator, g.count, i)))
	}
	return outputs
}

// add adds a node, and returns its first output. Further fields are its attributes and its set of operators.
func (g *Graph) add(operator string, inputs, outputs []Value, further ...field) Value {
	var fields []field
	for _, v := range inputs {
		fields = append(fields, field{nodeInput, string(v)})
	}
	for _, v := range outputs {
		fields = append(fields, field{nodeOutput, string(v)})
	}
	fields = append(fields, field{nodeName, string(outputs[0])}, field{nodeOperator, operator})
	g.nodes, g.count = append(g.nodes, encode(field{graphNode, encode(append(fields, further...)...)})...), g.count+1
	return outputs[0]
}

// attribute returns a constant that belongs to a node, as a field: a number (int), a text, numbers ([]float32 or []int64) or texts.
func attribute(name string, value any) field {
	number, kind := attributeInteger, 2 // AttributeProto.AttributeType
	switch value.(type) {
	case string:
		number, kind = attributeText, 3
	case []float32:
		number, kind = attributeFloats, 6
	case []int64:
		number, kind = attributeIntegers, 7
	case []string:
		number, kind = attributeTexts, 8
	}
	return field{nodeAttribute, encode(field{attributeName, name}, field{number, value}, field{attributeType, kind})}
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
func (g *Graph) Doubles(data []float64) Value { return g.constant(data, len(data)) }

// Number adds a constant number.
func (g *Graph) Number(v float32) Value { return g.Floats([]float32{v}) }

// Integer adds a constant whole number, without dimensions.
func (g *Graph) Integer(v int64) Value { return g.constant([]int64{v}) }

// Integers adds a constant vector of whole numbers.
func (g *Graph) Integers(data ...int64) Value { return g.constant(data, len(data)) }

// Texts adds a constant vector of texts.
func (g *Graph) Texts(data []string) Value { return g.constant(data, len(data)) }

// constant adds a constant of float32, float64 or whole numbers or of texts, and returns its name.
func (g *Graph) constant(values any, shape ...int) Value {
	name := fmt.Sprintf("constant/%d", len(g.constants))
	var c constant
	var of Elements
	var last []field // its values
	switch values := values.(type) {
	case []float32:
		c.floats, of = values, Float
	case []string:
		of, last = Text, []field{{tensorTexts, values}}
	case []float64:
		bytes, _ := binary.Append(nil, binary.LittleEndian, values) // fails for other types
		of, last = Double, []field{{tensorBytes, message(bytes)}}
	case []int64:
		bytes, _ := binary.Append(nil, binary.LittleEndian, values)
		of, last = Integer, []field{{tensorBytes, message(bytes)}}
	}
	var fields []field
	for _, n := range shape {
		fields = append(fields, field{tensorShape, n})
	}
	tensor := encode(append(append(fields, field{tensorName, name}, field{tensorType, int(of)}), last...)...)
	if of == Float {
		tensor = length(tensor, tensorBytes, 4*len(c.floats))
	}
	c.field = append(length(nil, graphConstant, len(tensor)+4*len(c.floats)), tensor...)
	g.constants = append(g.constants, c)
	return Value(name)
}

// length begins a field whose bytes follow elsewhere.
func length(m message, number protowire.Number, n int) message {
	return protowire.AppendVarint(protowire.AppendTag(m, number, protowire.BytesType), uint64(n))
}

// Write writes the graph as an ONNX file. It wraps errors of w. Other errors say that the file would be too large.
func (g *Graph) Write(w io.Writer) error {
	graph := slices.Concat(encode(field{graphName, g.name}), g.nodes, g.inputs, g.outputs)
	size := len(graph)
	for _, c := range g.constants {
		size += len(c.field) + 4*len(c.floats)
	}
	fields := []field{{modelFormat, format}, {modelProducer, "stagewise"}, {modelOperators, encode(field{operatorsVersion, OperatorSet})}}
	if g.learning {
		fields = append(fields, field{modelOperators, encode(field{operatorsDomain, learning}, field{operatorsVersion, LearningOperatorSet})})
	}
	for _, key := range slices.Sorted(maps.Keys(g.metadata)) {
		fields = append(fields, field{modelMetadata, encode(field{entryKey, key}, field{entryValue, g.metadata[key]})})
	}
	head := length(encode(fields...), modelGraph, size)
	if total := len(head) + size; total > maxSize {
		return fmt.Errorf("write ONNX: the file would have %.1f GB: an ONNX file has less than 2.1 GB, as it is one message of "+
			"Protocol Buffers", float64(total)/1e9)
	}
	out := bufio.NewWriter(w) // keeps its first error, which Flush returns
	out.Write(head)
	out.Write(graph)
	for _, c := range g.constants {
		out.Write(c.field)
		for _, v := range c.floats {
			out.Write(binary.LittleEndian.AppendUint32(out.AvailableBuffer(), math.Float32bits(v)))
		}
	}
	return out.Flush()
}

// Zeros adds a matrix of zeros with as many rows as x and that many columns.
func (g *Graph) Zeros(x Value, columns int) Value {
	n := g.Node("Gather", g.Node("Shape", x), g.Integers(0))
	return g.Node("Expand", g.Number(0), g.Along(0, "Concat", n, g.Integers(int64(columns))))
}

// Simplex adds the nearest point of the probability simplex to each row of x, which has that many columns. It is what
// kernel.SimplexRows computes: max(x−θ, 0), where θ is (μ₁+…+μ_ρ−1)/ρ for the ρ largest values μ of the row. As a
// function of ρ that rises up to the ρ sought and falls behind it, so θ is its maximum.
func (g *Graph) Simplex(x Value, columns int) Value {
	counts := make([]float32, columns)
	for i := range counts {
		counts[i] = float32(i + 1)
	}
	descending := g.add("TopK", []Value{x, g.Integers(int64(columns))}, g.outputsOf("TopK", 2))
	sums := g.Node("CumSum", descending, g.Integer(1))
	thetas := g.Node("Div", g.Node("Sub", sums, g.Number(1)), g.Row(counts))
	return g.Node("Relu", g.Node("Sub", x, g.Node("ReduceMax", thetas, g.Integers(1))))
}

// Unit adds each row of x divided by its Euclidean length. Rows of zeros stay as they are.
func (g *Graph) Unit(x Value) Value {
	x = g.quotient(x, g.Node("ReduceMax", g.Node("Abs", x), g.Integers(1))) // so no square is too large or too small for a float32
	return g.quotient(x, g.Node("ReduceL2", x, g.Integers(1)))
}

// quotient divides each row of x by its number in lengths, unless that is 0.
func (g *Graph) quotient(x, lengths Value) Value {
	return g.Node("Div", x, g.Node("Where", g.Node("Equal", lengths, g.Number(0)), g.Number(1), lengths))
}

// Tree is a tree whose leaves have weights, for [Graph.Trees]. The first node is its root.
type Tree []TreeNode

// TreeNode is a leaf, if it has weights, one for each column of the sum. Otherwise a row goes to one node of the tree if its feature is at
// most the threshold, and else to the other. A missing value (NaN) goes as if it were, or not.
type TreeNode struct {
	Weights       []float32
	Feature       int
	Threshold     float32
	Missing       bool
	AtMost, Above int // indices of nodes
}

// Trees adds to each row of x the weights of the leaves in which it ends, summed over the trees: a matrix of that many columns. There must
// be a tree.
func (g *Graph) Trees(x Value, trees []Tree, columns int) Value {
	var of, ids, features, atMost, above, missing []int64 // of each node
	var thresholds, weights []float32
	var modes []string
	var ofWeights, leaves, targets []int64 // of each weight: tree, node and column
	for t, tree := range trees {
		for id, node := range tree {
			mode, way := "BRANCH_LEQ", int64(0)
			if node.Missing {
				way = 1
			}
			if node.Weights != nil {
				mode, weights = "LEAF", append(weights, node.Weights...)
				for c := range columns {
					ofWeights, leaves, targets = append(ofWeights, int64(t)), append(leaves, int64(id)), append(targets, int64(c))
				}
			}
			of, ids, modes = append(of, int64(t)), append(ids, int64(id)), append(modes, mode)
			features, thresholds, missing = append(features, int64(node.Feature)), append(thresholds, node.Threshold), append(missing, way)
			atMost, above = append(atMost, int64(node.AtMost)), append(above, int64(node.Above))
		}
	}
	g.learning = true
	const operator = "TreeEnsembleRegressor"
	return g.add(operator, []Value{x}, g.outputsOf(operator, 1),
		attribute("aggregate_function", "SUM"), attribute("post_transform", "NONE"), attribute("n_targets", columns),
		attribute("nodes_treeids", of), attribute("nodes_nodeids", ids),
		attribute("nodes_featureids", features), attribute("nodes_values", thresholds), attribute("nodes_modes", modes),
		attribute("nodes_truenodeids", atMost), attribute("nodes_falsenodeids", above),
		attribute("nodes_missing_value_tracks_true", missing),
		attribute("target_treeids", ofWeights), attribute("target_nodeids", leaves), attribute("target_ids", targets),
		attribute("target_weights", weights), field{nodeDomain, learning})
}
