package link

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Softmax predicts the softmax of the score and measures the log loss.
const Softmax = "softmax"

func softmax() Link {
	return Link{
		Name: Softmax,
		Doc:  "its softmax, log loss",
		// The Hessian is diag(p) − p pᵀ. The absolute values of row c add up to 2 p(1−p) ≤ 1/2, so no eigenvalue is larger
		// (Gershgorin).
		Smoothness: 0.5,
		Regions:    []Region{Simplex},
		unit:       logits,
		predict: transform{
			rows: func(score kernel.Dense, _ *Scratch) { kernel.SoftmaxRows(score, nil, nil) },
			node: func(g *onnx.Graph, score onnx.Value, _ int) onnx.Value { return g.Node("Softmax", score) },
		},
		invert:  transform{rows: logarithms, node: addLogarithms},
		measure: logLoss,
		// The trace of the Hessian over the k−1 directions in which it is not 0.
		curvature: func(prediction []float32) float64 { return varianceOf(prediction) / float64(max(1, len(prediction)-1)) },
		lossOf: func(prediction []float32, class int32, _ []float32) float64 {
			return -math.Log(max(float64(prediction[class]), LeastProbability))
		},
	}
}

// threshold returns the lower bound of predictions of k classes before their logarithm. A prediction of 0 must not become a score that no
// later stage can undo. With many classes the largest prediction may be near 1/k, and must stay the largest.
func threshold(k int) float64 { return min(1e-3, 0.1/float64(max(k, 1))) }

// logarithms converts predictions to logits.
func logarithms(prediction kernel.Dense, s *Scratch) {
	threshold := threshold(prediction.Cols)
	projectOnSimplex(prediction, s)
	for i, p := range prediction.Data {
		prediction.Data[i] = float32(math.Log(max(float64(p), threshold)))
	}
}

func addLogarithms(g *onnx.Graph, prediction onnx.Value, k int) onnx.Value {
	return g.Node("Log", g.Node("Max", g.Simplex(prediction, k), g.Number(float32(threshold(k)))))
}

// logLoss is −log of the probability of the class.
func logLoss(score kernel.Dense, truth Truth, loss []float32, predicted []int32, s *Scratch) {
	n, classes := score.Rows, truth.Classes
	if cap(s.logs) < n {
		s.logs = make([]float64, n)
	}
	logs := s.logs[:n]
	for i, class := range classes {
		if loss[i] = 0; class >= 0 {
			loss[i] = score.Row(i)[class] // SoftmaxRows overwrites the score; its log Σ exp completes the loss below
		}
	}
	kernel.SoftmaxRows(score, logs, predicted)
	for i, class := range classes {
		if class >= 0 {
			loss[i] = float32(logs[i] - float64(loss[i]))
		}
	}
}

// varianceOf returns Σ p(1−p).
func varianceOf(prediction []float32) (sum float64) {
	for _, p := range prediction {
		sum += float64(p) * (1 - float64(p))
	}
	return sum
}
