package link

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Logistic predicts the logistic function of each score separately, and measures the sum of the log losses. With one
// label per row it is one-versus-rest regression, and the predictions are projected on the simplex.
const Logistic = "logistic"

func logistic() Link {
	return Link{
		Name:       Logistic,
		Doc:        "the logistic function of each score, log loss",
		Smoothness: 0.25, // the Hessian is diag(p(1−p))
		Regions:    []Region{Simplex, Hypercube},
		unit:       odds,
		predict: transform{
			rows: func(score kernel.Dense, _ *Scratch) { kernel.Sigmoid(score.Data) },
			node: func(g *onnx.Graph, score onnx.Value, _ int) onnx.Value { return g.Node("Sigmoid", score) },
		},
		invert:    transform{rows: logarithmsOfOdds, node: addLogarithmsOfOdds},
		project:   true,
		measure:   logLosses,
		curvature: func(prediction []float32) float64 { return varianceOf(prediction) / float64(max(1, len(prediction))) },
		lossOf:    logLossesOf,
	}
}

// logLossesOf is Σ −y·log p − (1−y)·log(1−p) over the predictions p of a row.
func logLossesOf(prediction []float32, class int32, target []float32) float64 {
	sum := 0.0
	for c, v := range prediction {
		p, y := float64(v), 0.0
		switch {
		case target != nil:
			y = float64(target[c])
		case int32(c) == class:
			y = 1
		}
		sum -= y*math.Log(max(p, LeastProbability)) + (1-y)*math.Log(max(1-p, LeastProbability))
	}
	return sum
}

// logarithmsOfOdds replaces each prediction p by log(p/(1−p)). It clips p first, like logarithms.
func logarithmsOfOdds(prediction kernel.Dense, _ *Scratch) {
	least := threshold(prediction.Cols)
	for i, v := range prediction.Data {
		p := max(least, min(float64(v), 1-least))
		prediction.Data[i] = float32(math.Log(p / (1 - p)))
	}
}

func addLogarithmsOfOdds(g *onnx.Graph, prediction onnx.Value, k int) onnx.Value {
	least := float32(threshold(k))
	p := g.Node("Min", g.Node("Max", prediction, g.Number(least)), g.Number(1-least))
	return g.Node("Log", g.Node("Div", p, g.Node("Sub", g.Number(1), p)))
}

// logLosses is logLossOfScores of each row. It replaces the scores by predictions.
func logLosses(score kernel.Dense, truth Truth, loss []float32, predicted []int32, _ *Scratch) {
	measureRows(score, truth, loss, predicted, logLossOfScores)
	kernel.Sigmoid(score.Data)
}

// logLossOfScores is Σ log(1 + exp(s)) − y·s over the scores s of a row.
func logLossOfScores(row []float32, class int32, target []float32) float64 {
	sum := 0.0
	for c, v := range row {
		s := float64(v)
		sum += max(s, 0) + math.Log1p(math.Exp(-math.Abs(s)))
		switch {
		case target != nil:
			sum -= float64(target[c]) * s
		case int32(c) == class:
			sum -= s
		}
	}
	return sum
}
