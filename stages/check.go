package stages

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// maxSize bounds the features of a block and the principal components: the Gram matrix of more features would exceed
// the memory of a worker.
const maxSize = 32768

// Check returns the invalid keys under `features`. It also checks keys that the kind does not read, if they are set: a value out
// of range is a mistake there too.
func Check(f schemas.Features) (problems []option.Problem) {
	bad := func(key string, value any, want string) {
		problems = append(problems, option.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	own := KindOf(f)
	if own.name == "" {
		own.minSize = 1
		bad("kind", f.Kind, english.WordSeries(Names(func(Kind) bool { return true }), "or"))
	}
	if f.Size < own.minSize || f.Size > maxSize {
		bad("size", f.Size, fmt.Sprintf("a whole number from %d to %d", own.minSize, maxSize))
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
			bad(key, value.Interface(), rule.Want)
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

// CheckInputs returns the keys under `features` that conflict with a preparation. Both must pass their own checks.
func CheckInputs(f schemas.Features, p schemas.Prepare) []option.Problem {
	if KindOf(f).pixels && (p.PCA > 0 || p.Scale == ScaleUnit || p.Scale == ScaleRanks) {
		want := "another kind, or prepare.pca 0 and prepare.scale none or standard, because these features are computed from pixels"
		return []option.Problem{{Key: "kind", Value: f.Kind, Want: want}}
	}
	return nil
}

// CheckScores returns the stage's keys that conflict with scores as features.
func CheckScores(f schemas.Features, scores bool) []option.Problem {
	if scores && KindOf(f).Grown {
		want := "false with kind " + f.Kind + ", because leaves are all columns of such a block"
		return []option.Problem{{Key: "scores", Value: "true", Want: want}}
	}
	return nil
}
