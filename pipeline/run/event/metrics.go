package event

import (
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// Metrics is what a visit measured on one split.
type Metrics struct {
	Rows  int64
	Error float64 // percent, weighted
	Loss  float64 // the link's own, weighted mean
}

// MetricsOf returns the metrics of each split that has rows, given the sums of a visit.
func MetricsOf(sums schemas.Tensors[float64]) map[schemas.Split]Metrics {
	metrics := map[schemas.Split]Metrics{}
	for split, s := range schemas.LossesOf(sums) {
		if s.Rows > 0 {
			metrics[schemas.Split(split)] = Metrics{Rows: int64(s.Rows), Error: s.ErrorPercent(), Loss: Finite(s.MeanLoss())}
		}
	}
	return metrics
}

// Finite returns v, or the largest number if v has overflowed: JSON has no infinities and no NaN.
func Finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.MaxFloat64
	}
	return v
}
