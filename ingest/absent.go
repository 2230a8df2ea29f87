package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
)

// enoughRows is the number of rows without a value after which a column name is assumed to be misspelt.
const enoughRows = 100

// Absent returns the names of the columns without a value in any of the first rows, if there were enough. At the end of the topic there are
// enough: then Absent returns those of which the last message does not even have the name, and no earlier row had a value.
func (v *Values) Absent(end bool) (names []string) {
	earlier := v.whole.Found.Learnt
	for at, present := range v.present {
		name := v.NameOf(at)
		if present || !v.Expects(at) {
			continue
		}
		if v.seen >= enoughRows && !end || end && v.Instead(name) != "" && !(earlier != nil && earlier.Lacking[name] < earlier.Rows) {
			names = append(names, name)
		}
	}
	return names
}

// Instead says what the last message has in place of a column: the column with the nearest name, or else all. It returns "" if the
// message has that column, or if columns have no names.
func (v *Values) Instead(column string) string {
	names := v.reader.Names()
	if slices.ContainsFunc(names, func(name string) bool {
		return name == column || strings.HasPrefix(column, name+".") || strings.HasPrefix(name, column+".")
	}) {
		return ""
	}
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(v.Names, name) })
	if near := option.Nearest(column, others); near != "" {
		names = []string{near}
	}
	if len(names) == 0 {
		return ""
	}
	return "the message has " + layout.SomeNames(names)
}

// adviseMissing adds to the error about a missing value what the message has in place of the first column that it lacks.
func (v *Values) adviseMissing(err error) error {
	if !errors.As(err, new(layout.MissingValueError)) {
		return err
	}
	for _, name := range v.whole.Columns.Use {
		if instead := v.Instead(name); instead != "" {
			return fmt.Errorf("%w; %s", err, instead)
		}
	}
	return err
}
