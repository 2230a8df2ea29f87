package link

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Temperatures returns the candidate temperatures, ascending. None is below 1, which makes predictions more confident:
// a few held-out rows with hardly any errors would select it. With 0.7, selected by 599 rows of chess, the log loss of
// test rows is 0.024 rather than 0.018.
func Temperatures() []float64 {
	return []float64{1, 1.1, 1.2, 1.35, 1.5, 1.7, 1.9, 2.2, 2.5, 3, 3.5, 4}
}

// HasTemperature reports whether scores are logarithms, so that dividing them by a temperature makes predictions less or
// more confident, and does not change which class is the most probable (Guo et al. 2017).
func (l Link) HasTemperature() bool { return l.unit != predictions }

// Temper divides scores by a temperature in place.
func Temper(score kernel.Dense, temperature float64) {
	if temperature == 1 {
		return
	}
	factor := factorOf(temperature)
	for i := range score.Data {
		score.Data[i] *= factor
	}
}

// AddTemper is [Temper] in a graph.
func AddTemper(g *onnx.Graph, score onnx.Value, temperature float64) onnx.Value {
	if temperature == 1 {
		return score
	}
	return g.Node("Mul", score, g.Number(factorOf(temperature)))
}

// factorOf returns the factor of the scores.
func factorOf(temperature float64) float32 { return float32(1 / temperature) }
