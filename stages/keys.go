package stages

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
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

// maxSize bounds the features of a block and the principal components: the Gram matrix of more features would exceed
// the memory of a worker.
const maxSize = 32768

// Check returns the invalid keys under `features`. It also checks keys that the kind does not read, if they are set: a value out
// of range is a mistake there too.
func Check(f schemas.Features) (problems option.Problems) {
	own := KindOf(f)
	if own.name == "" {
		own.minSize = 1
		problems.Add("kind", f.Kind, english.WordSeries(Names(func(Kind) bool { return true }), "or"))
	}
	if f.Size < own.minSize || f.Size > maxSize {
		problems.Add("size", f.Size, fmt.Sprintf("a whole number from %d to %d", own.minSize, maxSize))
	}
	for key, value := range option.Values(reflect.ValueOf(f)) {
		at := slices.IndexFunc(own.keys, func(k option.Key) bool { return k.Name == key })
		rule := option.Rule{}
		switch {
		case at >= 0:
			rule = own.keys[at].Rule
		case !value.IsZero():
			rule = ruleOf(key)
		}
		if rule.Holds != nil && !rule.Holds(value.Interface()) {
			problems.Add(key, value.Interface(), rule.Want)
		}
	}
	if own.fits != nil {
		problems = append(problems, own.fits(f)...)
	}
	return problems
}

// ruleOf returns the rule of a key; zero if no kind has one.
func ruleOf(key string) option.Rule {
	for k := range kinds {
		for _, other := range k.keys {
			if other.Name == key && other.Rule.Holds != nil {
				return other.Rule
			}
		}
	}
	return option.Rule{}
}

// CheckStage returns the keys of a stage that conflict with each other, with the preparation, or with the task of the
// run. The features of the stage must pass [Check].
func CheckStage(s schemas.Stage, p schemas.Prepare, task examples.Task) (problems option.Problems) {
	kind, name := KindOf(s.Features), s.Features.Kind
	if kind.pixels && (p.PCA > 0 || p.Scale == ScaleUnit || p.Scale == ScaleRanks) {
		problems.Add("features.kind", name,
			"another kind, or prepare.pca 0 and prepare.scale none or standard, because these features are computed from pixels")
	}
	if kind.Counted && task != examples.OneLabel {
		problems.Add("features.kind", name, "another kind, because these features count the rows of each class, and rows have one label each")
	}
	if kind.Grown && s.Scores {
		problems.Add("scores", "true", "false with kind "+name+", because leaves are all columns of such a block")
	}
	return problems
}
