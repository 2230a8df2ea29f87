package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Chosen columns equal those of the matrix, in row order, for any columns and any earlier choice.
func TestChooseColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var got Sparse
	for _, cols := range []int{1, 63, 64, 65} {
		for _, rows := range []int{0, 1, 40} {
			x, _ := sparseOf(r, rows+2, cols, true)
			x = rowsOf(x, 1, 1+rows)
			columns := NewSparseColumns(x)
			for _, step := range []int{1, 2, 70} {
				var chosen []int32
				for j := 0; j < cols; j += step {
					chosen = append(chosen, int32(j))
				}
				columns.Choose(&got, chosen)
				if got.Rows != rows || got.Width() != len(chosen) {
					t.Fatalf("%d of %d columns: %d×%d, expected %d rows", len(chosen), cols, got.Rows, got.Width(), rows)
				}
				for i := range rows {
					var places []int32
					var values []float32
					all, of := x.Row(i)
					for at, j := range all {
						if place, has := slices.BinarySearch(chosen, j); has {
							places, values = append(places, int32(place)), append(values, of[at])
						}
					}
					if columns, of := got.Row(i); !slices.Equal(columns, places) || !slices.Equal(of, values) {
						t.Errorf("%d of %d columns: row %d has %v in %v, expected %v in %v", len(chosen), cols, i, of, columns, values, places)
					}
				}
			}
		}
	}
}
