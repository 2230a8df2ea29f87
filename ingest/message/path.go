package message

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/ingest/layout"
)

// Label is the default column of the label in messages whose columns have names.
const Label = "label"

// Columns from other messages have names that no message has: LaterLabel for a label, and the prefix LaterTarget for a
// target.
const (
	LaterLabel  = "examples.outcome.label"
	LaterTarget = "examples.targets."
)

// Columns returns the names of the columns that the options read: the label or targets, the weight, the text and the
// served columns, if any, and the features.
func Columns(o layout.Options) []string {
	columns := slices.Concat(o.Targets, o.LabelColumns)
	switch {
	case o.Mode == layout.LabelLater && len(o.Targets) > 0:
		for i, name := range columns {
			columns[i] = LaterTarget + name
		}
	case o.Mode == layout.LabelLater:
		columns = []string{LaterLabel}
	case len(columns) > 0 || o.Mode == layout.Unlabelled:
	default:
		columns = []string{cmp.Or(string(o.Label), Label)}
	}
	for _, c := range []layout.Column{o.Weight, o.Text, o.Served.Label, o.Served.Version} {
		if c != "" {
			columns = append(columns, string(c))
		}
	}
	if len(o.Columns.Use) == 0 && o.Mixed() { // beside a text
		return slices.Concat(columns, o.Categorical, o.Times.Columns())
	}
	return append(columns, o.Columns.Use...)
}
