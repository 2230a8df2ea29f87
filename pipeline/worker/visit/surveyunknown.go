package visit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/schemas/examples"
)

// labelRows returns the numbers of rows with labels that are not classes, in label order; nil if there are none.
func labelRows(unknown map[string]int64) (list []examples.LabelRows) {
	for _, label := range slices.Sorted(maps.Keys(unknown)) {
		list = append(list, examples.LabelRows{Label: label, Rows: unknown[label]})
	}
	return list
}

// withoutTraining returns the numbers of rows of the labels without training rows.
func (f *Findings) withoutTraining() []examples.LabelRows {
	maps.DeleteFunc(f.untrained, func(label string, rows int64) bool { return rows == 0 || f.labels[label] > 0 })
	return labelRows(f.untrained)
}

// maxUnknownNamed is the maximum number of labels in a reason.
const maxUnknownNamed = 3

// unknownReason returns the reason for rows with unknown labels, which a chain excludes until there are enough of them.
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
