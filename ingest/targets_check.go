package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Task returns the prediction task of models of the examples.
func (o Options) Task() examples.Task {
	return (&schemas.Plan{Targets: o.Targets, Labels: o.PlanLabels()}).Task()
}

// checkTargets finds invalid targets, and keys that are incompatible with them, for examples in these files.
func (o Options) checkTargets(files []string) (problems []option.Problem) {
	if len(o.Targets) == 0 {
		return nil
	}
	wrong := func(key, value, want string) {
		problems = append(problems, option.Problem{Key: key, Value: value, Want: want})
	}
	if o.Outcome.Topic == "" { // otherwise they are columns of outcomes
		problems = append(problems, o.CheckOwnColumns("targets", o.Targets)...)
	}
	for _, f := range o.formatsOf(files) {
		if len(files) > 0 && f.Open != nil && !slices.Contains(f.Keys, "targets") {
			wrong("targets", fmt.Sprint(o.Targets), "no targets in files of the format "+f.Name+": their examples have labels")
			break
		}
	}
	if o.Label != "" {
		wrong("label", string(o.Label), "no label with examples.targets: a model predicts one or the other")
	}
	if len(o.Classes) > 0 {
		wrong("classes", strings.Join(o.Classes, ", "), "no classes with examples.targets: numbers have none")
	}
	if !o.ClassWeight.IsZero() {
		wrong("class_weight", o.ClassWeight.String(), "none with examples.targets: numbers have no classes")
	}
	return problems
}
