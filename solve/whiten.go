package solve

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Whiten returns (C + ridge·I)^−½ (n × n, row-major), the symmetric whitening of vectors with the covariance C (n × n, row-major); ridge
// is > 0. It returns a *NotFiniteError for a covariance without eigenvalues.
func Whiten(covariance []float64, n int, ridge float64) ([]float32, error) {
	values, vectors, err := eigen(covariance, n, "the covariance of patches")
	if err != nil {
		return nil, err
	}
	var scaled, whitening mat.Dense
	scaled.Apply(func(_, j int, v float64) float64 { return v / math.Sqrt(max(values[j], 0)+ridge) }, vectors)
	whitening.Mul(&scaled, vectors.T())
	return narrow(whitening.RawMatrix().Data), nil
}

// eigen returns the eigenvalues of a symmetric matrix (n × n, row-major; the upper triangle suffices), ascending, and
// the eigenvectors, one per column. It returns a *NotFiniteError with the given name for a matrix without eigenvalues.
func eigen(matrix []float64, n int, name string) (values []float64, vectors *mat.Dense, err error) {
	var of mat.EigenSym
	if !Finite(floats.Sum(matrix)) || !of.Factorize(mat.NewSymDense(n, matrix), true) {
		return nil, nil, &NotFiniteError{What: name}
	}
	vectors = new(mat.Dense)
	of.VectorsTo(vectors)
	return of.Values(nil), vectors, nil
}
