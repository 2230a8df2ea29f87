package sink

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// AddScores is [Fitted.Scores] in a graph: it adds the score after the stage.
func (f *Fitted) AddScores(g *onnx.Graph, before, block onnx.Value) onnx.Value {
	if f.W.Rows > 0 {
		before = addProduct(g, before, block, f.W)
	}
	for _, pass := range f.Passes {
		before = addProduct(g, before, block, pass.W)
	}
	return before
}

// AddShown is [Fitted.Shown] in a graph: it adds the score that the stage's predictions are made of. Every pass must have its calibration.
func (f *Fitted) AddShown(g *onnx.Graph, before, block onnx.Value) onnx.Value {
	if len(f.Passes) == 0 {
		return f.AddScores(g, before, block)
	}
	score := before
	for _, pass := range f.Passes {
		c := pass.Calibration
		z := addProduct(g, score, block, pass.W)
		square := g.Node("Mul", z, z)
		cubic := g.Along(1, "Concat", z, square, g.Node("Mul", square, z))
		score = f.Region.AddProject(g, g.Node("MatMul", cubic, g.Floats(c.Data, c.Rows, c.Cols)), c.Cols)
	}
	return score
}

// addProduct adds score + block·w.
func addProduct(g *onnx.Graph, score, block onnx.Value, w kernel.Weights) onnx.Value {
	return g.Node("Add", score, g.Node("MatMul", block, g.Floats(w.Data, w.Rows, w.Cols)))
}
