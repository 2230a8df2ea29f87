package link

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Identity predicts the score itself and measures the squared loss.
const Identity = "identity"

func identity() Link {
	return Link{
		Name:       Identity,
		Doc:        "the score itself, squared loss",
		Smoothness: 1,
		Quadratic:  true,
		unit:       predictions,
		project:    simplex(),
		measure:    squaredLoss,
	}
}

// simplex is the projection on the probability simplex.
func simplex() transform {
	return transform{
		rows: projectOnSimplex,
		node: func(g *onnx.Graph, prediction onnx.Value, k int) onnx.Value { return g.Simplex(prediction, k) },
	}
}

func projectOnSimplex(prediction kernel.Dense, s *Scratch) {
	kernel.SimplexRows(prediction, s.row(prediction.Cols))
}

// squaredLoss is half the squared distance of the score from the indicator of the class.
func squaredLoss(score kernel.Dense, classes []int32, loss []float32, predicted []int32, _ *Scratch) {
	for i, class := range classes {
		row := score.Row(i)
		if predicted[i] = largest(row); class < 0 {
			loss[i] = 0
			continue
		}
		sum := 0.0
		for c, v := range row {
			d := float64(v)
			if int32(c) == class {
				d--
			}
			sum += d * d
		}
		loss[i] = float32(sum / 2)
	}
}

// largest returns the index of the largest value, the first of equal ones.
func largest(row []float32) int32 {
	best := 0
	for c, v := range row {
		if v > row[best] {
			best = c
		}
	}
	return int32(best)
}
