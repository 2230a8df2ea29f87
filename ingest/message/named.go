package message

import (
	"fmt"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
)

// MaxRows returns the maximum number of rows of a message: as many as fit into an examples message. A row may take a few
// bytes of a value, but its cells take more.
func MaxRows(o layout.Options) int {
	return layout.MaxBatchBytes / layout.FloatRowBytes(len(o.Columns.Use))
}

// TooManyRows is the error of a message with too many rows.
func TooManyRows(most int) error {
	return fmt.Errorf("more than %d rows, which do not fit a message of examples: send fewer in a value", most)
}

// NextRow appends a row of n nulls to rows, reusing the memory of an earlier row if possible, and returns it.
func NextRow(rows *[][]tabular.Cell, n int) []tabular.Cell {
	if at := len(*rows); at < cap(*rows) {
		if *rows = (*rows)[:at+1]; len((*rows)[at]) == n {
			clear((*rows)[at])
			return (*rows)[at]
		}
		*rows = (*rows)[:at]
	}
	*rows = append(*rows, make([]tabular.Cell, n))
	return (*rows)[len(*rows)-1]
}
