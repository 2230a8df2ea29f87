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

// format is the version of the file's format that came with the operators.
const format = 8

// maxSize is the largest file: a message of Protocol Buffers is less than 2 GiB.
const maxSize = math.MaxInt32

// Elements is the type of a tensor's elements, by its number in the format (TensorProto.DataType).
type Elements uint64

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

// The types of attributes (AttributeProto.AttributeType).
const integerAttribute, textAttribute, floatsAttribute, integersAttribute, textsAttribute = 2, 3, 6, 7, 8

// message is an encoded message, or a part of one.
type message []byte

func (m *message) number(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) text(field protowire.Number, v string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) message(field protowire.Number, v message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

// length begins a field whose bytes follow elsewhere.
func (m *message) length(field protowire.Number, n int) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.BytesType), uint64(n))
}

// Write writes the graph as an ONNX file. It wraps errors of w. Other errors say that the file would be too large.
func (g *Graph) Write(w io.Writer) error {
	// The values of large constants are written as they are, so that they are in memory once. All else of the graph is in parts before them.
	var parts []message
	graph := g.describe()
	size := len(graph)
	for _, c := range g.constants {
		part := c.encode()
		parts = append(parts, part)
		size += len(part) + 4*len(c.floats())
	}
	head := g.head()
	head.length(modelGraph, size)
	if total := len(head) + size; total > maxSize {
		return fmt.Errorf("write ONNX: the file would have %.1f GB: an ONNX file has less than 2.1 GB, as it is one message of "+
			"Protocol Buffers", float64(total)/1e9)
	}
	out := bufio.NewWriter(w) // keeps its first error, which Flush returns
	out.Write(head)
	out.Write(graph)
	for i, c := range g.constants {
		out.Write(parts[i])
		for _, v := range c.floats() {
			out.Write(binary.LittleEndian.AppendUint32(out.AvailableBuffer(), math.Float32bits(v)))
		}
	}
	return out.Flush()
}

// floats returns the values that follow the constant's encoding; nil if it has values of another type.
func (c constant) floats() []float32 {
	floats, _ := c.values.([]float32)
	return floats
}

// head is all of the model but its graph.
func (g *Graph) head() (m message) {
	m.number(modelFormat, format)
	m.text(modelProducer, "stagewise")
	operators := func(of domain, version uint64) {
		var operators message
		if of != standard {
			operators.text(operatorsDomain, string(of))
		}
		operators.number(operatorsVersion, version)
		m.message(modelOperators, operators)
	}
	operators(standard, OperatorSet)
	if slices.ContainsFunc(g.nodes, func(n node) bool { return n.domain == learning }) {
		operators(learning, LearningOperatorSet)
	}
	for _, key := range slices.Sorted(maps.Keys(g.metadata)) {
		var entry message
		entry.text(entryKey, key)
		entry.text(entryValue, g.metadata[key])
		m.message(modelMetadata, entry)
	}
	return m
}

// describe is all of the graph but its constants.
func (g *Graph) describe() (m message) {
	m.text(graphName, g.name)
	for _, n := range g.nodes {
		m.message(graphNode, n.encode())
	}
	for _, p := range g.inputs {
		m.message(graphInput, p.encode())
	}
	for _, p := range g.outputs {
		m.message(graphOutput, p.encode())
	}
	return m
}

func (n node) encode() (m message) {
	for _, v := range n.inputs {
		m.text(nodeInput, string(v))
	}
	for _, v := range n.outputs {
		m.text(nodeOutput, string(v))
	}
	m.text(nodeName, string(n.outputs[0]))
	m.text(nodeOperator, n.operator)
	for _, a := range n.attributes {
		m.message(nodeAttribute, a.encode())
	}
	if n.domain != standard {
		m.text(nodeDomain, string(n.domain))
	}
	return m
}

func (a attribute) encode() (m message) {
	m.text(attributeName, a.name)
	var packed message
	kind := uint64(0)
	switch value := a.value.(type) {
	case int:
		kind = integerAttribute
		m.number(attributeInteger, uint64(value))
	case string:
		kind = textAttribute
		m.text(attributeText, value)
	case []float32:
		kind = floatsAttribute
		for _, v := range value {
			packed = protowire.AppendFixed32(packed, math.Float32bits(v))
		}
		m.message(attributeFloats, packed)
	case []int64:
		kind = integersAttribute
		for _, v := range value {
			packed = protowire.AppendVarint(packed, uint64(v))
		}
		m.message(attributeIntegers, packed)
	case []string:
		kind = textsAttribute
		for _, v := range value {
			m.text(attributeTexts, v)
		}
	}
	m.number(attributeType, kind)
	return m
}

// encode returns the constant as a field of the graph, without the values of [constant.floats], which follow.
func (c constant) encode() (field message) {
	var m, bytes message
	for _, n := range c.shape {
		m.number(tensorShape, uint64(n))
	}
	m.text(tensorName, string(c.name))
	switch values := c.values.(type) {
	case []float32:
		m.number(tensorType, uint64(Float))
		m.length(tensorBytes, 4*len(values))
	case []float64:
		m.number(tensorType, uint64(Double))
		for _, v := range values {
			bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(v))
		}
		m.message(tensorBytes, bytes)
	case []int64:
		m.number(tensorType, uint64(Integer))
		for _, v := range values {
			bytes = binary.LittleEndian.AppendUint64(bytes, uint64(v))
		}
		m.message(tensorBytes, bytes)
	case []string:
		m.number(tensorType, uint64(Text))
		for _, v := range values {
			m.text(tensorTexts, v)
		}
	}
	field.length(graphConstant, len(m)+4*len(c.floats()))
	return append(field, m...)
}

func (p port) encode() (m message) {
	var dimension, shape, tensor, kind message
	dimension.text(dimensionName, rows)
	shape.message(shapeDimension, dimension)
	if p.columns == anyColumns {
		dimension = nil
		dimension.text(dimensionName, length)
		shape.message(shapeDimension, dimension)
	}
	if p.columns > 0 {
		dimension = nil
		dimension.number(dimensionSize, uint64(p.columns))
		shape.message(shapeDimension, dimension)
	}
	tensor.number(typeElements, uint64(p.of))
	tensor.message(typeShape, shape)
	kind.message(typeTensor, tensor)
	m.text(portName, string(p.name))
	m.message(portType, kind)
	return m
}
