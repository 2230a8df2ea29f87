package linear

// Narrow returns w in float32.
func Narrow(w []float64) []float32 {
	out := make([]float32, len(w))
	for i, x := range w {
		out[i] = float32(x)
	}
	return out
}
