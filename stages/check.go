package stages

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// maxSize bounds the features of a block and the principal components: the Gram matrix of more features would not fit into
// the memory of a worker.
const maxSize = 32768

// maxIDF bounds the power of the inverse document frequency, so that a factor is no overflow: it is the logarithm of a number of rows.
const maxIDF = 10

// Check returns what is wrong with features, by the keys under `features`. It also checks keys that the kind does not read:
// a value out of range is a mistake there too.
func Check(f schemas.Features) (problems []schemas.Problem) {
	bad := func(key string, value any, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	minSize := 1
	if k, ok := find(f.Kind); ok {
		minSize = k.minSize
	} else {
		var names []string
		for k := range kinds {
			names = append(names, k.name)
		}
		bad("kind", f.Kind, alternatives(names))
	}
	if f.Size < minSize || f.Size > maxSize {
		bad("size", f.Size, fmt.Sprintf("a whole number from %d to %d", minSize, maxSize))
	}
	var checked []string
	for k := range kinds {
		for _, key := range k.keys {
			if key.valid == nil || slices.Contains(checked, key.Name) {
				continue
			}
			checked = append(checked, key.Name)
			if !key.valid(f) {
				bad(key.Name, key.value(f), key.want)
			}
		}
	}
	return problems
}

// CheckPrepare returns what is wrong with a preparation, by the keys under `prepare`.
func CheckPrepare(p schemas.Prepare) (problems []schemas.Problem) {
	switch p.Scale {
	case ScaleNone, ScaleStandard, ScaleUnit:
	default:
		problems = append(problems, schemas.Problem{Key: "scale", Value: p.Scale, Want: alternatives([]string{ScaleNone, ScaleStandard, ScaleUnit})})
	}
	if p.PCA < 0 || p.PCA > maxSize {
		problems = append(problems, schemas.Problem{Key: "pca", Value: fmt.Sprint(p.PCA), Want: fmt.Sprintf("a whole number from 0 to %d", maxSize)})
	}
	if p.MinRows < 0 {
		problems = append(problems, schemas.Problem{Key: "min_rows", Value: fmt.Sprint(p.MinRows), Want: "a whole number ≥ 0"})
	}
	switch p.Values {
	case "", ValuesNone, ValuesLog, ValuesSqrt, ValuesBinary:
	default:
		problems = append(problems, schemas.Problem{Key: "values", Value: p.Values, Want: alternatives([]string{ValuesNone, ValuesLog, ValuesSqrt, ValuesBinary})})
	}
	if !(p.IDF >= 0 && p.IDF <= maxIDF) {
		problems = append(problems, schemas.Problem{Key: "idf", Value: fmt.Sprint(p.IDF), Want: fmt.Sprintf("a number from 0 to %d", maxIDF)})
	}
	return problems
}

// CheckInputs returns what is wrong with features beside a preparation, by the keys under `features`. Both must pass their own checks.
func CheckInputs(f schemas.Features, p schemas.Prepare) []schemas.Problem {
	if k, ok := find(f.Kind); ok && k.pixels && (p.PCA > 0 || p.Scale == ScaleUnit) {
		want := "another kind, or prepare.pca 0 and prepare.scale none or standard, because these features are made of pixels"
		return []schemas.Problem{{Key: "kind", Value: f.Kind, Want: want}}
	}
	return nil
}
