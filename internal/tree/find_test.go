package tree

import (
	"math/rand/v2"
	"testing"
)

func TestFindByDescent(t *testing.T) {
	for _, c := range []struct{ columns, words, trees, leaves int }{
		{1, 0, 1, 2}, {3, 1, 2, 31}, {4, 4, 31, 32}, {5, 2, 32, 33}, {28, 3, 33, 32},
		{7, 0, 16, 64}, {200, 5, 32, 32}, {300, 0, 17, 64}, {3, 0, 0, 8},
	} {
		s := sampleOf(3, 500, c.columns, 2, false)
		f := Grow(s, ordersOf(3, s, c.words), Shape{c.trees, c.leaves, 2, 0.5, 1}, 4, 5, 2)
		finder := NewFinder(f, c.columns)
		r := rand.New(rand.NewPCG(6, 6))
		var got Leaves
		for _, n := range []int{0, 1, 63, 64, 65} {
			codes := make([]uint8, n*c.columns)
			for i := range codes {
				codes[i] = uint8(r.IntN(256))
			}
			finder.Find(&got, codes)
			if got.Rows != n || got.Trees != c.trees {
				t.Fatalf("%+v: %d × %d leaves", c, got.Trees, got.Rows)
			}
			for i := range n {
				for tree := range c.trees {
					if leaf, want := int(got.Tree(tree)[i]), descend(f, tree, codes[i*c.columns:][:c.columns]); leaf != want {
						t.Fatalf("%+v: row %d is in leaf %d of tree %d, want %d", c, i, leaf, tree, want)
					}
				}
			}
		}
	}
}
