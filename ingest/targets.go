package ingest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// Task returns what a model of the examples predicts.
func (o Options) Task() schemas.Task {
	return (&schemas.Plan{Targets: o.Targets, Labels: o.PlanLabels()}).Task()
}

// checkTargets finds impossible targets, and what is impossible beside them, of examples in these files.
func (o Options) checkTargets(files []string) (problems []schemas.Problem) {
	if len(o.Targets) == 0 {
		return nil
	}
	wrong := func(key, value, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: value, Want: want})
	}
	known := map[string]bool{}
	for _, c := range o.Targets {
		n, isNumber := Column(c).number()
		switch {
		case c == "" || known[c] || isNumber && n < 0:
			wrong("targets", strconv.Quote(c), "different columns, each by its number, from 0, or by its name")
		case Column(c) == o.Weight || slices.Contains(slices.Concat(o.Columns.Use, o.Columns.Drop, o.Categorical), c):
			wrong("targets", c, "other columns than those of the weight and the features")
		}
		known[c] = true
	}
	for _, f := range o.formatsOf(files) {
		if len(files) > 0 && f.open != nil && !slices.Contains(f.keys, "targets") {
			wrong("targets", fmt.Sprint(o.Targets), "no targets in files of the format "+f.name+": their examples have labels")
			break
		}
	}
	if o.FromTopic != "" {
		wrong("targets", fmt.Sprint(o.Targets), "no targets beside examples.from_topic, whose values have labels: producers write numbers to the examples topic, in the column targets")
	}
	if o.Label != "" {
		wrong("label", string(o.Label), "no label beside examples.targets: a model predicts either")
	}
	if len(o.Classes) > 0 {
		wrong("classes", strings.Join(o.Classes, ", "), "no classes beside examples.targets: numbers have none")
	}
	if !o.ClassWeight.IsZero() {
		wrong("class_weight", o.ClassWeight.String(), "none beside examples.targets: numbers have no classes")
	}
	return problems
}

// assignTargets gives the columns of the numbers to predict their role.
func (l *layout) assignTargets() error {
	for i, name := range l.options.Targets {
		at, err := l.column(Column(name))
		if err != nil {
			return err
		}
		if l.cells[at].role == target {
			return l.locate(at, errors.New("this column twice under examples.targets"))
		}
		l.cells[at].role, l.cells[at].at = target, i
	}
	return nil
}

// checkTarget returns an error for a number that no target may be.
func checkTarget(v float64) error {
	switch {
	case v != v:
		return errors.New("a missing value: expected a number to predict")
	case math.Abs(v) > math.MaxFloat32:
		return fmt.Errorf("%v: expected a finite number to predict, at most %.3g in size", v, math.MaxFloat32)
	}
	return nil
}

// parseTarget parses a number to predict.
func parseTarget(field string) (float64, error) {
	v, err := strconv.ParseFloat(field, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is not a number to predict", quote(field))
	}
	return v, checkTarget(v)
}
