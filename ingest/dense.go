package ingest

import "strings"

// Values of the key `rows` for the density of rows. Any other value is a path.
const (
	rowsAuto   = "auto"   // sparse rows are converted to dense ones if a stage needs that, and they have at most maxDense columns
	rowsDense  = "dense"  // they are converted to dense ones
	rowsSparse = "sparse" // they stay sparse
)

// maxDense is the maximum number of columns for the conversion of sparse rows without an explicit setting.
const maxDense = 10_000

// density returns one of these values: "auto" for a path.
func (o Options) density() string {
	if o.Rows == rowsDense || o.Rows == rowsSparse {
		return o.Rows
	}
	return rowsAuto
}

// rowsPath returns the path of the rows in a message; "": none. A member that has the name of a density is written as
// ./dense.
func (o Options) rowsPath() string {
	switch o.Rows {
	case rowsAuto, rowsDense, rowsSparse:
		return ""
	}
	return strings.TrimPrefix(o.Rows, "./")
}
