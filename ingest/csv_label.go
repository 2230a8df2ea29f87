package ingest

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// inspectRows is how many rows show whether a column looks like the label.
const inspectRows = 10_000

// inspectCSV returns a *FileError if nobody has said which column has the label, and column 0 looks like a measurement or the number of
// a row: it has fractions, or more different values than a tenth of the rows. It reads the first rows.
func inspectCSV(opened reader) error {
	r := opened.(*csvReader)
	if r.options.Label != "" || len(r.options.Classes) > 0 {
		return nil
	}
	labels, rows := map[string]bool{}, 0
	for rows < inspectRows {
		err := r.read()
		if err == io.EOF {
			break
		}
		if err != nil || len(r.record) != len(r.cells) {
			return nil // whoever reads the file says where
		}
		rows++
		field := strings.TrimSpace(r.record[r.labelColumn])
		if v, err := strconv.ParseFloat(field, 64); err == nil && v != math.Trunc(v) {
			return r.fail(r.labelColumn, fmt.Errorf("%s looks like a measurement, and no key says which column has the label: set examples.label", quote(field)))
		}
		labels[strings.Clone(field)] = true
	}
	if len(labels) > 2 && len(labels) > rows/10 {
		return r.fail(r.labelColumn, fmt.Errorf("%d different values in %d rows do not look like labels, and no key says which column has the label: set examples.label", len(labels), rows))
	}
	return nil
}
