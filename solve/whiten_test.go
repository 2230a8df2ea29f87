package solve

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// W·(C + ridge·I)·W is the identity matrix, and W is symmetric.
func TestWhiten(t *testing.T) {
	const n, ridge = 7, 0.25
	draws := mat.NewDense(5, n, nil) // C has rank 5
	for i := range 5 {
		for j := range n {
			draws.Set(i, j, math.Sin(float64(7*i+3*j*j+1)))
		}
	}
	var covariance mat.Dense
	covariance.Mul(draws.T(), draws)
	lower := mat.DenseCopyOf(&covariance).RawMatrix().Data
	for i := range n {
		for j := i + 1; j < n; j++ {
			lower[i*n+j] = math.NaN() // not read
		}
	}
	whitening := arrowtest.Must(Whiten(lower, n, ridge))(t)
	w := mat.NewDense(n, n, nil)
	for i, v := range whitening {
		w.Set(i/n, i%n, float64(v))
	}
	for i := range n {
		covariance.Set(i, i, covariance.At(i, i)+ridge)
	}
	var unit mat.Dense
	unit.Product(w, &covariance, w)
	for i := range n {
		for j := range n {
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(unit.At(i, j)-want) > 1e-5 || math.Abs(w.At(i, j)-w.At(j, i)) > 1e-6 {
				t.Errorf("W(C+rI)W at %d, %d is %v, expected %v", i, j, unit.At(i, j), want)
			}
		}
	}
	if _, err := Whiten([]float64{math.Inf(1)}, 1, ridge); !errors.As(err, new(*NotFiniteError)) {
		t.Errorf("an infinite covariance: %v", err)
	}
}
