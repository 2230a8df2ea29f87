package link_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
)

// Algorithm 2 learns the link in the basis (z, z², z³).
func ExampleBasis_Expand() {
	var g kernel.Dense
	link.Basis(nil).Expand(&g, kernel.Dense{Rows: 1, Cols: 2, Data: []float32{2, -1}})
	fmt.Println(g.Data)
	// Output: [2 -1 4 1 8 -1]
}

func TestBasis(t *testing.T) {
	z := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{2, -3, 0, 0.5}}
	for _, test := range []struct {
		basis link.Basis
		want  []float32
	}{
		{nil, []float32{2, -3, 4, 9, 8, -27, 0, 0.5, 0, 0.25, 0, 0.125}},
		{link.Basis{1, 2, 3}, []float32{2, -3, 4, 9, 8, -27, 0, 0.5, 0, 0.25, 0, 0.125}},
		{link.Basis{1}, z.Data},
		{link.Basis{3}, []float32{8, -27, 0, 0.125}},
		{link.Basis{1, 3}, []float32{2, -3, 8, -27, 0, 0.5, 0, 0.125}},
	} {
		var g kernel.Dense
		if test.basis.Expand(&g, z); !slices.Equal(g.Data, test.want) || g.Cols != 2*test.basis.Len() {
			t.Errorf("%v: G is %v, expected %v", test.basis, g.Data, test.want)
		}
	}
	for _, basis := range []link.Basis{{}, {0}, {2, 1}, {1, 1}, {1, link.MaxPower + 1}} {
		if basis.Valid() {
			t.Errorf("%v is valid", basis)
		}
	}
}
