package stages

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
