package prepare

import (
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/tree"
)

// Compared is the values that trees compare, in a graph: raw features, and the codes of words.
// [Preparation.AddCompared] creates it.
type Compared struct {
	Raw   onnx.Value
	Width int                // d
	First []int              // feature of each column
	Codes map[int]onnx.Value // of each column of words (n × 1)
}

// AddCompared adds the values of raw rows (n × d) that trees compare. It panics if the preparation has no bins.
func (p *Preparation) AddCompared(g *onnx.Graph, raw onnx.Value) *Compared {
	c := &Compared{Raw: raw, Codes: map[int]onnx.Value{}}
	for j, features := range p.Coder.features {
		c.First = append(c.First, c.Width)
		if features > 1 {
			c.Codes[j] = addCode(g, raw, c.Width, min(features-1, tree.MaxWords))
		}
		c.Width += features
	}
	return c
}

// addCode adds the code of a word (n × 1): the index of the first indicator above 0, counted from 1; 0: there is none.
func addCode(g *onnx.Graph, raw onnx.Value, first, words int) onnx.Value {
	indicators := g.Node("Slice", raw, g.Integers(int64(first)), g.Integers(int64(first+words)), g.Integers(1))
	set := g.Node("Where", g.Node("Greater", indicators, g.Number(0)), g.Number(1), g.Number(0))
	// The 0.5 before them is the largest if none is set. Ties go to the first.
	return g.Along(1, "ArgMax", g.Node("Pad", set, g.Integers(0, 1, 0, 0), g.Number(0.5)))
}
