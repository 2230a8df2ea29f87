package examples

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
)

// Columns of the served answers.
const (
	columnServed        = "served"
	columnServedVersion = "served_version"
)

// MaxVersion is the highest version that a row may name.
const MaxVersion = 1<<31 - 1

// Served is the answer of a server for a row before its label was known.
type Served struct {
	Label   string // "": unknown
	Version int    // version that answered; 0: unknown
}

// known reports whether a row was served.
func (s Served) known() bool { return s.Label != "" && s.Version > 0 }

// setServed keeps a column of served answers.
func setServed(column arrow.Array, to *values) error {
	v, ok := valuesOf(column)
	if !ok {
		return fmt.Errorf("type %v, expected text or whole numbers", column.DataType())
	}
	*to = v
	return nil
}

// Served returns the served label of a row, and the version that answered. ok is false if the message does not have it, and for
// forgotten rows.
func (e *Batch) Served(row int) (served Served, ok bool) {
	label, version := &e.served, &e.servedVersion
	if e.forgot(row) || label.Values == nil || version.Values == nil || !version.isWhole() || label.isNull(row) || version.isNull(row) {
		return Served{}, false
	}
	n, _ := version.Whole(row)
	if n < 1 || n > MaxVersion {
		return Served{}, false
	}
	return Served{label.label(row), int(n)}, true
}
