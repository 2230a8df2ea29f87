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
		if predicted[i] = largest(row); class < 0 {
			loss[i] = 0
			continue
		}
		sum := 0.0
		for c, v := range row {
			d := float64(v)
			switch {
			case truth.Targets.Rows > 0:
				d -= float64(truth.Targets.Row(i)[c])
			case int32(c) == class:
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
