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
		measure:    squaredLosses,
		lossOf:     squaredLoss,
	}
}

// squaredLosses is squaredLoss of each row.
func squaredLosses(score kernel.Dense, truth Truth, loss []float32, predicted []int32, _ *Scratch) {
	measureRows(score, truth, loss, predicted, squaredLoss)
}

// squaredLoss is half the squared distance of the score from y.
func squaredLoss(row []float32, class int32, target []float32) float64 {
	sum := 0.0
	if target != nil {
		for c, y := range target {
			d := float64(row[c]) - float64(y)
			sum += d * d
		}
		return sum / 2
	}
	for _, v := range row[:class] { // with a test of each class the loop takes twice as long
		sum += float64(v) * float64(v)
	}
	d := float64(row[class]) - 1
	sum += d * d
	for _, v := range row[class+1:] {
		sum += float64(v) * float64(v)
	}
	return sum / 2
}
