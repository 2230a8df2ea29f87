package sink

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Product adds the product of a stage's block and weights (p × k) to a graph.
type Product func(w kernel.Dense) onnx.Value

// ProductOf returns the Product of a block that is a matrix.
func ProductOf(g *onnx.Graph, block onnx.Value) Product {
	return func(w kernel.Dense) onnx.Value { return g.Node("MatMul", block, g.Floats(w.Data, w.Rows, w.Cols)) }
}

// AddScores is [Fitted.Scores] in a graph: it adds the score after the stage.
func (f *Fitted) AddScores(g *onnx.Graph, before onnx.Value, product Product) onnx.Value {
	if f.W.Rows > 0 {
		before = g.Node("Add", before, product(f.W.Dense))
	}
	for _, pass := range f.Passes {
		before = g.Node("Add", before, product(pass.W.Dense))
	}
	return before
}

// AddShown is [Fitted.Shown] in a graph: it adds the score behind the stage's predictions. Every pass must have its calibration.
func (f *Fitted) AddShown(g *onnx.Graph, before onnx.Value, product Product) onnx.Value {
	if len(f.Passes) == 0 {
		return f.AddScores(g, before, product)
	}
	score := before
	for _, pass := range f.Passes {
		c := pass.Calibration
		z := g.Node("Add", score, product(pass.W.Dense))
		score = f.Region.AddProject(g, g.Node("MatMul", f.Basis.Add(g, z), g.Floats(c.Data, c.Rows, c.Cols)), c.Cols)
	}
	return score
}
