package solve

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// SparseSums have the row of each column, in however many blocks, and forget all of them.
func TestSumsOfManyColumns(t *testing.T) {
	const k = 2
	sums := NewSparseSums(k, 0, 1)
	for range 2 {
		columns := 2*blockRows + 65
		for column := range columns {
			sums.Add(1, statistics.Occurring{Columns: []int32{int32(3 * column)}, Values: []float64{float64(column), 1}})
		}
		for column := range columns {
			if row := sums.Row(int32(3 * column)); !slices.Equal(row, []float64{float64(column), 1}) {
				t.Fatalf("the sums of column %d are %v", 3*column, row)
			}
			if row := sums.Row(int32(3*column + 1)); row != nil {
				t.Fatalf("column %d has sums %v", 3*column+1, row)
			}
		}
		sums.Clear()
	}
}
