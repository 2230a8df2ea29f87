package accumulate

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas/examples"
)

// However rows are split, and whether counts went through a record, the counts are the same.
func TestColumnRowsAreAMonoid(t *testing.T) {
	rows := [][]int32{{0, 5, 1023, 1024}, {}, {5}, {5, examples.MaxColumns - 1}, {1024}}
	want := []examples.ColumnRows{{Column: 0, Rows: 1}, {Column: 5, Rows: 3}, {Column: 1023, Rows: 1}, {Column: 1024, Rows: 2},
		{Column: examples.MaxColumns - 1, Rows: 1}}
	for cut := range len(rows) + 1 {
		var first, second, whole ColumnRows
		for i, row := range rows {
			if i < cut {
				first.Add(row)
			} else {
				second.Add(row)
			}
		}
		whole.MergeRecord(second.Record())
		whole.Merge(&first)
		if got := whole.Record(); !slices.Equal(got, want) {
			t.Errorf("cut at %d: %v, expected %v", cut, got, want)
		}
	}
}
