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
func Check(p schemas.Prepare) []option.Problem { return option.Check(Keys(), p, schemas.Prepare{}) }

// Keys documents the keys under `prepare`, in the order of the fields of [schemas.Prepare].
func Keys() []option.Key {
	return []option.Key{
		{Name: "scale", Rule: option.OneOf(ScaleAuto, ScaleNone, ScaleStandard, ScaleUnit, ScaleRanks),
			Meaning: "`none`, `standard` (divide each feature by its standard deviation), `unit` (divide each example by " +
				"its norm), `ranks` (replace each number by the normal score of its rank) or `auto` (`standard` for dense rows with named " +
				"columns if the features of a stage depend on units, otherwise `none`). Warm starts and updates keep it"},
		{Name: "pca", Rule: option.Whole(0, maxComponents), Excludes: map[string]string{"scale: " + ScaleRanks: "0, because scale is " +
			ScaleRanks + ": principal components are those of numbers as they are"},
			Meaning: "number of principal components; 0: use the features themselves"},
		{Name: "min_rows", Rule: option.Whole(0, 0),
			Meaning: "sparse rows: minimum number of training rows in which a feature is not 0; other columns are left " +
				"out"},
		{Name: "values", Rule: option.OneOf("", ValuesNone, ValuesLog, ValuesSqrt, ValuesBinary),
			Meaning: "sparse rows: transformation of each value: `none`, `log1p` (log(1 + value)), `sqrt` or `binary` (1). " +
				"Without keys under `prepare`, it may be [chosen](texts.md) by held-out rows"},
		{Name: "idf", Rule: option.Range(0, maxIDF, fmt.Sprintf("a number from 0 to %d", maxIDF)),
			Meaning: "sparse rows: multiply a column that is not 0 in r of n training rows by (log((n+1)/(r+1))+1) to this " +
				"power, before `scale: unit`"},
	}
}
