package message

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// Path returns the steps to a value within others: names of members, and places in lists, from 0, as in items.0.price.
func Path(column string) []string { return strings.Split(column, ".") }

// Label is the column of the label in messages whose columns have names, if no key says another.
const Label = "label"

// Columns returns the names of the columns that the options read: those of the label or of what else is predicted, the weight and
// the text if there are such columns, and those of features.
func Columns(o layout.Options) []string {
	columns := slices.Concat(o.Targets, o.LabelColumns)
	if len(columns) == 0 {
		columns = []string{cmp.Or(string(o.Label), Label)}
	}
	for _, c := range []layout.Column{o.Weight, o.Text} {
		if c != "" {
			columns = append(columns, string(c))
		}
	}
	return append(columns, o.Columns.Use...)
}

// LabelKey returns the key that names the first of Columns.
func LabelKey(o layout.Options) string {
	switch {
	case len(o.Targets) > 0:
		return "examples.targets"
	case len(o.LabelColumns) > 0:
		return "examples.label_columns"
	}
	return "examples.label"
}

// NoRowsError says that a message has nothing at the path of its rows.
func NoRowsError(path string, names []string) error {
	return fmt.Errorf("nothing at %s, where examples.rows says that the rows are: the message has %s", value.Quote(path),
		layout.SomeNames(names))
}
