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
	if len(more) == 0 {
		return slices.Clone(to)
	}
	sum := make([]LabelRows, 0, max(len(to), len(more)))
	for len(to) > 0 && len(more) > 0 {
		switch c := strings.Compare(to[0].Label, more[0].Label); {
		case c < 0:
			sum, to = append(sum, to[0]), to[1:]
		case c > 0:
			sum, more = append(sum, more[0]), more[1:]
		default:
			sum = append(sum, LabelRows{to[0].Label, to[0].Rows + more[0].Rows})
			to, more = to[1:], more[1:]
		}
	}
	return append(append(sum, to...), more...)
}
