package onnx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"google.golang.org/protobuf/encoding/protowire"
)

// fields are the fields of a message: of each number, its values in their order. A whole number is a message of its varint.
type fields map[protowire.Number][]message

func decode(t *testing.T, m message) fields {
	t.Helper()
	all := fields{}
	for len(m) > 0 {
		field, kind, n := protowire.ConsumeTag(m)
		assert.Need(t, n >= 0, "%v", protowire.ParseError(n))
		size := protowire.ConsumeFieldValue(field, kind, m[n:])
		assert.Need(t, size >= 0, "%v", protowire.ParseError(size))
		value := m[n : n+size]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		all[field] = append(all[field], value)
		m = m[n+size:]
	}
	return all
}

// written returns the model that a graph is written as, and its graph.
func written(t *testing.T, g *Graph) (model, graph fields) {
	t.Helper()
	var file bytes.Buffer
	assert.NoError(t, g.Write(&file))
	model = decode(t, file.Bytes())
	return model, decode(t, model[modelGraph][0])
}

func (f fields) texts(field protowire.Number) (all []string) {
	for _, v := range f[field] {
		all = append(all, string(v))
	}
	return all
}

func (f fields) number(field protowire.Number) uint64 {
	n, _ := protowire.ConsumeVarint(f[field][0])
	return n
}

// A file has what was added, in its order, and values as they are. onnxruntime reads such files in the tests of package model.
func TestFile(t *testing.T) {
	g := New("sums", map[string]string{"z": "last", "a": "first"})
	x := g.Input("x", 2)
	g.Output("y", g.Along(1, "Concat", g.Node("Add", x, g.Row([]float32{1, -2.5})), x), Float, 4)
	g.Output("words", g.Texts([]string{"a", "β"}), Text, 0)
	g.Integers(-1, 3)
	g.Output("z", g.Node("Mul", g.Double(x), g.Doubles([]float64{0.1, 1e300})), Double, 2)
	g.Output("least", g.Node("GreaterOrEqual", x, g.Number(0)), Flag, 2)
	m, graph := written(t, g)
	assert.True(t, m.number(modelFormat) == 8 && decode(t, m[modelOperators][0]).number(operatorsVersion) == 18,
		"another version of the format or of its operators")
	var about []string
	for _, entry := range m[modelMetadata] {
		e := decode(t, entry)
		about = append(about, e.texts(entryKey)[0]+"="+e.texts(entryValue)[0])
	}
	assert.Equal(t, about, []string{"a=first", "z=last"}, "metadata")
	var nodes []string
	for _, n := range graph[graphNode] {
		f := decode(t, n)
		text := strings.Join(f.texts(nodeOutput), " ") + " = " + f.texts(nodeOperator)[0] + " " + strings.Join(f.texts(nodeInput), " ")
		for _, a := range f[nodeAttribute] {
			text += " " + decode(t, a).texts(attributeName)[0] + " " + string('0'+rune(decode(t, a).number(attributeInteger)))
		}
		nodes = append(nodes, text)
	}
	assert.Equal(t, nodes, []string{
		"Add/0:0 = Add x constant/0", "Concat/1:0 = Concat Add/0:0 x axis 1", "y = Identity Concat/1:0", "words = Identity constant/1",
		"Cast/4:0 = Cast x to ;", "Mul/5:0 = Mul Cast/4:0 constant/3", "z = Identity Mul/5:0",
		"GreaterOrEqual/7:0 = GreaterOrEqual x constant/4", "least = Identity GreaterOrEqual/7:0",
	}, "nodes")
	row := decode(t, graph[graphConstant][0])
	values := row[tensorBytes][0]
	assert.True(t, math.Float32frombits(binary.LittleEndian.Uint32(values[4:])) == -2.5 && len(values) == 8 && row.number(tensorShape) == 2,
		"constant of floats: %x", values)
	assert.Equal(t, decode(t, graph[graphConstant][1]).texts(tensorTexts), []string{"a", "β"}, "constant of texts")
	values = decode(t, graph[graphConstant][2])[tensorBytes][0]
	assert.True(t, int64(binary.LittleEndian.Uint64(values)) == -1 && len(values) == 16, "constant of whole numbers: %x", values)
	values = decode(t, graph[graphConstant][3])[tensorBytes][0]
	assert.True(t, len(values) == 16 && math.Float64frombits(binary.LittleEndian.Uint64(values[8:])) == 1e300,
		"constant of doubles: %x", values)
	assert.True(t, len(graph[graphInput]) == 1 && len(graph[graphOutput]) == 4,
		"%d inputs and %d outputs", len(graph[graphInput]), len(graph[graphOutput]))
}

// Trees are one node, of another set of operators, which the file names. Nodes and leaves have the numbers of their trees.
func TestTrees(t *testing.T) {
	g := New("trees", nil)
	trees := []Tree{{{Weights: []float32{7, 8}}}, {
		{Feature: 3, Threshold: 0.5, Missing: true, AtMost: 2, Above: 1}, {Weights: []float32{1, 2}}, {Weights: []float32{3, 4}}}}
	g.Output("y", g.Trees(g.Input("x", 4), trees, 2), Float, 2)
	m, graph := written(t, g)
	n := len(m[modelOperators])
	assert.Need(t, n == 2, "%d sets of operators", n)
	set := decode(t, m[modelOperators][1])
	assert.True(t, set.texts(operatorsDomain)[0] == "ai.onnx.ml" && set.number(operatorsVersion) == 3,
		"operators of %s, version %d", set.texts(operatorsDomain), set.number(operatorsVersion))
	ensemble := decode(t, graph[graphNode][0])
	assert.True(t, ensemble.texts(nodeOperator)[0] == "TreeEnsembleRegressor" && ensemble.texts(nodeDomain)[0] == "ai.onnx.ml",
		"the operator %s of %s", ensemble.texts(nodeOperator), ensemble.texts(nodeDomain))
	got := map[string]string{}
	for _, m := range ensemble[nodeAttribute] {
		a := decode(t, m)
		text := append(append([]string{fmt.Sprintf("%d :", a.number(attributeType))}, a.texts(attributeText)...), a.texts(attributeTexts)...)
		for range a[attributeInteger] {
			text = append(text, fmt.Sprint(a.number(attributeInteger)))
		}
		for _, floats := range a[attributeFloats] {
			for ; len(floats) > 0; floats = floats[4:] {
				text = append(text, fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(floats))))
			}
		}
		for _, integers := range a[attributeIntegers] {
			for len(integers) > 0 {
				number, n := protowire.ConsumeVarint(integers)
				text, integers = append(text, fmt.Sprint(number)), integers[n:]
			}
		}
		got[a.texts(attributeName)[0]] = strings.Join(text, " ")
	}
	assert.Equal(t, got, map[string]string{
		"aggregate_function": "3 : SUM", "post_transform": "3 : NONE", "n_targets": "2 : 2",
		"nodes_treeids": "7 : 0 1 1 1", "nodes_nodeids": "7 : 0 0 1 2", "nodes_featureids": "7 : 0 3 0 0", "nodes_values": "6 : 0 0.5 0 0",
		"nodes_modes": "8 : LEAF BRANCH_LEQ LEAF LEAF", "nodes_truenodeids": "7 : 0 2 0 0", "nodes_falsenodeids": "7 : 0 1 0 0",
		"nodes_missing_value_tracks_true": "7 : 0 1 0 0",
		"target_treeids":                  "7 : 0 0 1 1 1 1", "target_nodeids": "7 : 0 0 1 1 2 2", "target_ids": "7 : 0 1 0 1 0 1", "target_weights": "6 : 7 8 1 2 3 4",
	}, "attributes")
}

// A file of 2 GiB can't be, and nothing of it is written.
func TestFileThatWouldBeTooLarge(t *testing.T) {
	g, part := New("large", nil), make([]float32, 1<<27) // nobody touches the memory
	for range 4 {
		g.Floats(part, 1<<10, 1<<17)
	}
	var file bytes.Buffer
	err := g.Write(&file)
	assert.True(t, err != nil && strings.Contains(err.Error(), "2.1 GB: an ONNX file has less") && file.Len() == 0,
		"wrote %d bytes: %v", file.Len(), err)
}

func TestConstantsOfAnotherShapePanic(t *testing.T) {
	defer func() { assert.True(t, recover() != nil, "a 2 × 2 constant was made of 3 values") }()
	New("", nil).Floats(make([]float32, 3), 2, 2)
}
