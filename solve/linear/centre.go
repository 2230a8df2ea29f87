package linear

// Centre subtracts the mean from values.
func Centre(values []float64) {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for i := range values {
		values[i] -= mean
	}
}
