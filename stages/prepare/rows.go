package prepare

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas"
)

// DenseError means that a setting requires dense rows, but the examples are sparse.
type DenseError struct {
	What string // the key and its value
	Want string // the supported value for sparse rows
}

// Error says what to set.
func (e *DenseError) Error() string {
	return fmt.Sprintf("%s: the examples are sparse, and this needs dense rows: set %s; or for LIBSVM files examples.rows to dense",
		e.What, e.Want)
}

// SparseError means that a setting requires sparse rows, but the examples are dense.
type SparseError struct{ What string } // the key, and its value if other values are for dense rows

// Error names the key.
func (e *SparseError) Error() string {
	return fmt.Sprintf("%s: the examples are dense, and this is for sparse rows, such as those of LIBSVM files: remove it", e.What)
}

// CheckRows returns a *[DenseError] or a *[SparseError] if the preparation does not support sparse, or dense, examples.
func CheckRows(p schemas.Prepare, sparse bool) error {
	switch {
	case sparse && p.PCA > 0:
		return &DenseError{fmt.Sprintf("prepare.pca: %d", p.PCA), "it to 0"}
	case sparse && (p.Scale == ScaleStandard || p.Scale == ScaleRanks):
		return &DenseError{"prepare.scale: " + p.Scale, "it to " + ScaleNone + " or " + ScaleUnit}
	case !sparse && p.MinRows > 1:
		return &SparseError{"prepare.min_rows"}
	case !sparse && p.Values != "" && p.Values != ValuesNone:
		return &SparseError{"prepare.values"}
	case !sparse && p.IDF != 0:
		return &SparseError{"prepare.idf"}
	}
	return nil
}
