package link

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Region is the region in which the predictions of a model lie.
type Region uint8

const (
	Simplex   Region = iota // probabilities of classes, of which a row has one
	Hypercube               // probabilities of labels, of which a row may have several
	Space                   // numbers
)

// Project moves predictions (n × k) to the nearest points of the region, in place.
func (r Region) Project(prediction kernel.Dense, s *Scratch) { r.projection().apply(prediction, s) }

// AddProject is Project in a graph. The predictions have k columns.
func (r Region) AddProject(g *onnx.Graph, prediction onnx.Value, k int) onnx.Value {
	return r.projection().add(g, prediction, k)
}

func (r Region) projection() transform {
	switch r {
	case Hypercube:
		return transform{
			rows: func(prediction kernel.Dense, _ *Scratch) {
				for i, p := range prediction.Data {
					prediction.Data[i] = max(0, min(p, 1)) // a NaN stays one
				}
			},
			node: func(g *onnx.Graph, prediction onnx.Value, _ int) onnx.Value {
				return g.Node("Clip", prediction, g.Number(0), g.Number(1))
			},
		}
	case Space:
		return transform{}
	}
	return transform{
		rows: projectOnSimplex,
		node: func(g *onnx.Graph, prediction onnx.Value, k int) onnx.Value { return g.Simplex(prediction, k) },
	}
}

func projectOnSimplex(prediction kernel.Dense, s *Scratch) {
	kernel.SimplexRows(prediction, s.row(prediction.Cols))
}
