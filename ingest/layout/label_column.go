package layout

import (
	"fmt"
	"math"
	"strings"

	"github.com/stagewise/stagewise/schemas/value"
)

// inspectRows is the number of rows inspected to detect a wrong label column.
const inspectRows = 10_000

// InspectLabels returns a *input.Error if no option names the label column, and the default column looks like a
// measurement or a row number: it has fractions, or more different values than a tenth of the rows. each calls put for the
// labels of the first rows, until put returns false.
func (l *Layout) InspectLabels(each func(put func(label string) bool) error) error {
	if l.Label < 0 || l.Options.Several() || l.Options.Label != "" || len(l.Options.Classes) > 0 {
		return nil
	}
	labels, rows, fraction := map[string]bool{}, 0, ""
	err := each(func(label string) bool {
		if l.NoLabels.Has(label) {
			return true
		}
		if v, err := value.Number(label); err == nil && v != math.Trunc(v) {
			fraction = label
			return false
		}
		rows++
		labels[strings.Clone(label)] = true
		return rows < inspectRows
	})
	switch {
	case fraction != "":
		return l.Refuse(l.Label, fmt.Errorf("%s looks like a measurement, not a label: set examples.label to the label column",
			value.Quote(fraction)))
	case err != nil:
		return nil // reported when the file is read
	case len(labels) > 2 && len(labels) > rows/10:
		return l.Refuse(l.Label, fmt.Errorf("%d different values in %d rows do not look like labels: "+
			"set examples.label to the label column", len(labels), rows))
	}
	return nil
}
