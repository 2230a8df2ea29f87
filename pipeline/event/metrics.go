package event

import (
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Metrics are the measurements of a visit on one split.
type Metrics struct {
	Rows  int64
	Error float64 // percent, weighted
	Loss  float64 // loss of the link, weighted mean
}

// MetricsOf returns the metrics of each split with rows, from the sums of a visit.
func MetricsOf(sums wire.Tensors[float64]) map[examples.Split]Metrics {
	metrics := map[examples.Split]Metrics{}
	for split, s := range statistics.LossesOf(sums) {
		if s.Rows > 0 {
			metrics[examples.Split(split)] = Metrics{Rows: int64(s.Rows), Error: wire.Finite(s.ErrorPercent()), Loss: wire.Finite(s.MeanLoss())}
		}
	}
	return metrics
}
