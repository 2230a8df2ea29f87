package link

import (
	"github.com/stagewise/stagewise/internal/kernel"
)

// Identity predicts the score itself and measures the squared loss.
const Identity = "identity"

func identity() Link {
	return Link{
		Name:       Identity,
		Doc:        "the score itself, squared loss",
		Smoothness: 1,
		Quadratic:  true,
		Regions:    []Region{Simplex, Hypercube, Space},
		unit:       predictions,
		project:    true,
		measure:    squaredLoss,
	}
}

// squaredLoss is half the squared distance of the score from y.
func squaredLoss(score kernel.Dense, truth Truth, loss []float32, predicted []int32, _ *Scratch) {
	for i, class := range truth.Classes {
		row := score.Row(i)
		if predicted[i] = Largest(row); class < 0 {
			loss[i] = 0
			continue
		}
		sum := 0.0
		if truth.Targets.Rows > 0 {
			for c, y := range truth.Targets.Row(i) {
				d := float64(row[c]) - float64(y)
				sum += d * d
			}
			loss[i] = float32(sum / 2)
			continue
		}
		for _, v := range row[:class] { // with a test of each class the loop takes twice as long
			sum += float64(v) * float64(v)
		}
		d := float64(row[class]) - 1
		sum += d * d
		for _, v := range row[class+1:] {
			sum += float64(v) * float64(v)
		}
		loss[i] = float32(sum / 2)
	}
}
