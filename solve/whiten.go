package solve

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Whiten returns (C + ridge·I)^−½ (n × n, row-major), the symmetric whitening of vectors with the covariance C. covariance has its
// lower triangle, row-major, n × n; ridge is > 0. It returns a *NotFiniteError for a covariance without eigenvalues.
func Whiten(covariance []float64, n int, ridge float64) ([]float32, error) {
	symmetric := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			symmetric.SetSym(i, j, covariance[i*n+j])
		}
	}
	var eigen mat.EigenSym
	if !Finite(mat.Sum(symmetric)) || !eigen.Factorize(symmetric, true) {
		return nil, &NotFiniteError{What: "the covariance of patches"}
	}
	var vectors, scaled, whitening mat.Dense
	eigen.VectorsTo(&vectors)
	values := eigen.Values(nil)
	scaled.Apply(func(_, j int, v float64) float64 { return v / math.Sqrt(max(values[j], 0)+ridge) }, &vectors)
	whitening.Mul(&scaled, vectors.T())
	return narrow(whitening.RawMatrix().Data), nil
}
