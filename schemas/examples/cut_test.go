package examples

import (
	"reflect"
	"testing"
)

// TestDropLeavesTheOthers compares the rows after those dropped with a slice of them.
func TestDropLeavesTheOthers(t *testing.T) {
	for from := range 4 {
		for name, rows := range map[string]func() *Rows{
			"dense": func() *Rows {
				return &Rows{Rows: 3, Cols: 2, Floats: []float32{1, 2, 3, 4, 5, 6}, Numbers: []int64{7, 8, 9}, NoLabel: []bool{false, true, false},
					Weights: []float32{1, 2, 3}}
			},
			"sparse": func() *Rows {
				return &Rows{Rows: 3, Sparse: &SparseRows{Ends: []int{2, 2, 3}, Indices: []int32{0, 7, 1}, Values: []float32{1, 2, 3}},
					LabelLists: [][]string{{"a"}, nil, {"b", "c"}}, Served: []Served{{Version: 1}, {}, {Version: 2}}}
			},
			"targets": func() *Rows {
				return &Rows{Rows: 3, Cols: 1, Floats: []float32{1, 2, 3}, Targets: []float64{1, 2, 3, 4, 5, 6}, Words: []string{"a", "", "b"}}
			},
		} {
			whole, left := rows(), rows()
			left.Drop(from)
			if want := whole.Slice(from, whole.Rows); left.Rows != want.Rows || left.Rows > 0 && !reflect.DeepEqual(left, want) {
				t.Errorf("%s without %d rows: %+v, expected %+v", name, from, left, want)
			}
		}
	}
}
