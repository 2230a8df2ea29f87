package prepare

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// maxComponents bounds the principal components: the Gram matrix of more inputs would exceed the memory of a worker.
const maxComponents = 32768

// maxIDF bounds the power of the inverse document frequency, the logarithm of a number of rows, to prevent overflow.
const maxIDF = 10

// Check returns the invalid keys of a preparation, under `prepare`.
func Check(p schemas.Prepare) (problems []option.Problem) {
	switch p.Scale {
	case ScaleAuto, ScaleNone, ScaleStandard, ScaleUnit:
	case ScaleRanks:
		if p.PCA > 0 {
			problems = append(problems, option.Problem{Key: "pca", Value: fmt.Sprint(p.PCA),
				Want: "0, because scale is " + ScaleRanks + ": principal components are those of numbers as they are"})
		}
	default:
		problems = append(problems, option.Problem{Key: "scale", Value: p.Scale,
			Want: option.Enumerate([]string{ScaleAuto, ScaleNone, ScaleStandard, ScaleUnit, ScaleRanks}, "or")})
	}
	if p.PCA < 0 || p.PCA > maxComponents {
		problems = append(problems, option.Problem{Key: "pca", Value: fmt.Sprint(p.PCA),
			Want: fmt.Sprintf("a whole number from 0 to %d", maxComponents)})
	}
	if p.MinRows < 0 {
		problems = append(problems, option.Problem{Key: "min_rows", Value: fmt.Sprint(p.MinRows), Want: "a whole number ≥ 0"})
	}
	switch p.Values {
	case "", ValuesNone, ValuesLog, ValuesSqrt, ValuesBinary:
	default:
		problems = append(problems, option.Problem{Key: "values", Value: p.Values,
			Want: option.Enumerate([]string{ValuesNone, ValuesLog, ValuesSqrt, ValuesBinary}, "or")})
	}
	if !(p.IDF >= 0 && p.IDF <= maxIDF) {
		problems = append(problems, option.Problem{Key: "idf", Value: fmt.Sprint(p.IDF), Want: fmt.Sprintf("a number from 0 to %d", maxIDF)})
	}
	return problems
}

// Keys documents the keys under `prepare`, in the order of the fields of [schemas.Prepare].
func Keys() []option.Key {
	return []option.Key{
		{Name: "scale", Meaning: "`none`, `standard` (divide each feature by its standard deviation), `unit` (divide each example by " +
			"its norm), `ranks` (replace each number by the normal score of its rank) or `auto` (`standard` for dense rows with named " +
			"columns if the features of a stage depend on units, otherwise `none`). Warm starts and updates keep it"},
		{Name: "pca", Meaning: "number of principal components; 0: use the features themselves"},
		{Name: "min_rows", Meaning: "sparse rows: minimum number of training rows in which a feature is not 0; other columns are left " +
			"out"},
		{Name: "values", Meaning: "sparse rows: transformation of each value: `none`, `log1p` (log(1 + value)), `sqrt` or `binary` (1). " +
			"Without keys under `prepare`, it may be [chosen](texts.md) by held-out rows"},
		{Name: "idf", Meaning: "sparse rows: multiply a column that is not 0 in r of n training rows by (log((n+1)/(r+1))+1) to this " +
			"power, before `scale: unit`"},
	}
}
