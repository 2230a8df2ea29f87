package survey

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/schemas/examples"
)

// labelRows returns how many rows have labels that are no class, in the order of the labels; nil if none has.
func labelRows(unknown map[string]int64) (list []examples.LabelRows) {
	for _, label := range slices.Sorted(maps.Keys(unknown)) {
		list = append(list, examples.LabelRows{Label: label, Rows: unknown[label]})
	}
	return list
}

// withoutTraining returns the rows of the labels of which no row is fitted.
func (f *Findings) withoutTraining() []examples.LabelRows {
	maps.DeleteFunc(f.untrained, func(label string, rows int64) bool { return rows == 0 || f.labels[label] > 0 })
	return labelRows(f.untrained)
}

// maxUnknownNamed is how many labels a reason names.
const maxUnknownNamed = 3

// unknownReason says which labels are no class, of rows that a chain leaves out until they are enough.
func unknownReason(unknown map[string]int64) string {
	labels := slices.Sorted(maps.Keys(unknown))
	var named []string
	for _, label := range labels[:min(len(labels), maxUnknownNamed)] {
		named = append(named, fmt.Sprintf("%q", label))
	}
	if more := len(labels) - maxUnknownNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("rows of %s %s are left out: no class of the version before", english.PluralWord(len(labels), "label", ""),
		english.WordSeries(named, "and"))
}
