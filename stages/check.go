package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// Kinds of features.
const (
	RFF        = "rff"        // random Fourier features
	Logits     = "logits"     // sigmoids of random projections
	Polynomial = "polynomial" // random monomials of random projections
	Columns    = "columns"    // a subset of the inputs
)

// Ways to scale raw features.
const (
	ScaleNone     = "none"
	ScaleStandard = "standard"
	ScaleUnit     = "unit"
)

const (
	maxSize   = 32768 // a Gram matrix of more would not fit the memory of a worker
	maxDegree = 8
)

// Defaults are the features of a stage that says nothing.
func Defaults() schemas.Features {
	return schemas.Features{Kind: RFF, Size: 1024, BandwidthScale: 1, Degree: 2}
}

// Check says what is impossible about features, by the keys under `features`.
func Check(f schemas.Features) (problems []schemas.Problem) {
	bad := func(key string, value any, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	least := 1
	switch f.Kind {
	case RFF, Logits, Polynomial:
	case Columns:
		least = 0
	default:
		bad("kind", f.Kind, "rff, logits, polynomial or columns")
	}
	if f.Size < least || f.Size > maxSize {
		bad("size", f.Size, fmt.Sprintf("a whole number from %d to %d", least, maxSize))
	}
	if !(f.BandwidthScale > 0) || math.IsInf(f.BandwidthScale, 1) {
		bad("bandwidth_scale", f.BandwidthScale, "a number > 0")
	}
	if f.Degree < 1 || f.Degree > maxDegree {
		bad("degree", f.Degree, fmt.Sprintf("a whole number from 1 to %d", maxDegree))
	}
	return problems
}

// CheckPrepare says what is impossible about a preparation, by the keys under
// `prepare`.
func CheckPrepare(p schemas.Prepare) (problems []schemas.Problem) {
	switch p.Scale {
	case ScaleNone, ScaleStandard, ScaleUnit:
	default:
		problems = append(problems, schemas.Problem{Key: "scale", Value: p.Scale, Want: "none, standard or unit"})
	}
	if p.PCA < 0 || p.PCA > maxSize {
		problems = append(problems, schemas.Problem{Key: "pca", Value: fmt.Sprint(p.PCA), Want: fmt.Sprintf("a whole number from 0 to %d", maxSize)})
	}
	return problems
}
