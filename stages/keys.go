package stages

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// Keys documents the keys under `features` of a stage, in the order of the fields of [schemas.Features]. The text about
// a kind comes from the kind itself.
func Keys() []option.Key {
	var names []string
	for k := range kinds {
		names = append(names, fmt.Sprintf("`%s` (%s)", k.name, k.meaning))
	}
	var keys []option.Key
	for key := range option.Values(reflect.ValueOf(schemas.Features{})) {
		of := meaning(key)
		switch key {
		case "kind":
			of = english.WordSeries(names, "or")
		case "size":
			of = "number of features of the block; " + of
		}
		keys = append(keys, option.Key{Name: key, Meaning: of})
	}
	return keys
}

// meaning joins the meanings of a key for each kind that reads it, as in "`a`, `b`: this; `c`: that".
func meaning(name string) string {
	var meanings []string
	readers := map[string][]string{}
	for k := range kinds {
		for _, key := range k.keys {
			if key.Name != name {
				continue
			}
			if readers[key.Meaning] == nil {
				meanings = append(meanings, key.Meaning)
			}
			readers[key.Meaning] = append(readers[key.Meaning], "`"+k.name+"`")
		}
	}
	for i, m := range meanings {
		meanings[i] = strings.Join(readers[m], ", ") + ": " + m
	}
	return strings.Join(meanings, "; ")
}

// maxIDF bounds the power of the inverse document frequency, the logarithm of a number of rows, to prevent overflow.
const maxIDF = 10

// CheckPrepare returns the invalid keys of a preparation, under `prepare`.
func CheckPrepare(p schemas.Prepare) option.Problems {
	return option.Check(PrepareKeys(), p, schemas.Prepare{})
}

// PrepareKeys documents the keys under `prepare`, in the order of the fields of [schemas.Prepare].
func PrepareKeys() []option.Key {
	return []option.Key{
		{Name: "scale", Rule: option.OneOf(ScaleAuto, ScaleNone, ScaleStandard, ScaleUnit, ScaleRanks),
			Meaning: "`none`, `standard` (divide each feature by its standard deviation), `unit` (divide each example by " +
				"its norm), `ranks` (replace each number by the normal score of its rank) or `auto` (`standard` for dense rows with named " +
				"columns if the features of a stage depend on units, otherwise `none`). Warm starts and updates keep it"},
		{Name: "pca", Rule: option.Whole(0, maxSize), Excludes: map[string]string{"scale: " + ScaleRanks: "0, because scale is " +
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
