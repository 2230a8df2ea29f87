package solve

// metric approximates the curvature of J. Gradients are multiplied by its inverse.
type metric interface {
	// SolveTo writes its inverse times g (p × k, row-major) into dst, which may be g.
	SolveTo(dst, g []float64, k int)
}

// solved returns the inverse of a metric times g.
func solved(m metric, g []float64, k int) []float64 {
	dst := make([]float64, len(g))
	m.SolveTo(dst, g, k)
	return dst
}
