package ingest

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
)

// DefaultSeveralHoldout is the default holdout fraction for multi-label training rows: thresholds and calibrations need
// rows to which the weights were not fitted.
const DefaultSeveralHoldout = 0.2

// checkLabels finds invalid keys for multi-label examples in these files.
func (o Options) checkLabels(files []string) (problems []option.Problem) {
	wrong := func(key, value, want string) {
		problems = append(problems, option.Problem{Key: key, Value: value, Want: want})
	}
	if o.Labels != layout.LabelsOne && o.Labels != "" && !o.Several() {
		wrong("labels", value.Quote(o.Labels), "one or several")
	}
	if !o.Several() {
		if o.LabelSeparator != "" {
			wrong("label_separator", value.Quote(o.LabelSeparator), "no separator, because examples.labels is one")
		}
		if len(o.LabelColumns) > 0 {
			wrong("label_columns", fmt.Sprint(o.LabelColumns), "no columns, because examples.labels is one")
		}
		return problems
	}
	for _, f := range o.formatsOf(files) {
		if len(files) > 0 && f.Open != nil && !slices.Contains(f.Keys, "label_separator") {
			wrong("labels", o.Labels, "one, as files of the format "+f.Name+" have one label a row")
			break
		}
	}
	if len(o.Targets) > 0 {
		wrong("labels", o.Labels, "one with examples.targets: a model predicts labels or numbers")
	}
	if !o.ClassWeight.IsZero() {
		wrong("class_weight", o.ClassWeight.String(), "none, as a row may have several labels")
	}
	if len(o.LabelColumns) > 0 && (o.Label != "" || o.LabelSeparator != "") {
		wrong("label_columns", fmt.Sprint(o.LabelColumns),
			"no columns with examples.label and examples.label_separator: the labels are in several columns or in one")
	}
	if o.Outcome.Topic == "" { // otherwise they are columns of outcomes
		problems = append(problems, o.CheckOwnColumns("label_columns", o.LabelColumns)...)
	}
	return problems
}
