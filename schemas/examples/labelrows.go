package examples

import (
	"slices"
	"strings"
)

// LabelRows is the number of rows with a label.
type LabelRows struct {
	Label string `json:"label"` // label
	Rows  int64  `json:"rows"`  // number of rows
}

// AddLabelRows adds two lists of row counts. Both are in the order of their labels.
func AddLabelRows(to, more []LabelRows) []LabelRows {
	sum := slices.Clone(to)
	for _, m := range more {
		i, found := slices.BinarySearchFunc(sum, m.Label, func(r LabelRows, label string) int { return strings.Compare(r.Label, label) })
		if !found {
			sum = slices.Insert(sum, i, LabelRows{Label: m.Label})
		}
		sum[i].Rows += m.Rows
	}
	return sum
}
