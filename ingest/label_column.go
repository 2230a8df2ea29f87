package ingest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// inspectRows is how many rows show whether a column looks like the label.
const inspectRows = 10_000

// inspectLabels returns a *FileError if nobody has said which column has the label, and the one that is taken looks like a measurement or
// the number of a row: it has fractions, or more different values than a tenth of the rows. each calls put for the labels of the first
// rows, until put returns false.
func (l *layout) inspectLabels(each func(put func(label string) bool) error) error {
	if l.label < 0 || l.options.several() || l.options.Label != "" || len(l.options.Classes) > 0 {
		return nil
	}
	labels, rows, fraction := map[string]bool{}, 0, ""
	err := each(func(label string) bool {
		if v, err := strconv.ParseFloat(label, 64); err == nil && v != math.Trunc(v) {
			fraction = label
			return false
		}
		rows++
		labels[strings.Clone(label)] = true
		return rows < inspectRows
	})
	switch {
	case fraction != "":
		return l.locate(l.label, fmt.Errorf("%s looks like a measurement, and no key says which column has the label: set examples.label", quote(fraction)))
	case err != nil:
		return nil // whoever reads the file says where
	case len(labels) > 2 && len(labels) > rows/10:
		return l.locate(l.label, fmt.Errorf("%d different values in %d rows do not look like labels, and no key says which column has the label: set examples.label", len(labels), rows))
	}
	return nil
}
