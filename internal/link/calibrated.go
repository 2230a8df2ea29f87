package link

// Calibrated is the link that Algorithm 2, calibrated least squares, learns from the data. It measures the squared loss
// of the calibrated predictions; its scores are in the unit of predictions.
const Calibrated = "calibrated"

func calibrated() Link {
	return Link{
		Name:       Calibrated,
		Doc:        "learnt from the data by Algorithm 2, squared loss",
		Smoothness: 1,
		Learnt:     true,
		Regions:    []Region{Simplex, Hypercube},
		unit:       predictions,
		project:    true,
		measure:    squaredLosses,
		lossOf:     squaredLoss,
	}
}
