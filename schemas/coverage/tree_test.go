package coverage

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Blocks have all partitions once, in order, and are ones that a reduction takes; whole groups are never apart.
func TestBlocks(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		tree := Tree{Parts: 1 + r.IntN(50), Group: 1 + r.IntN(9)}
		var ordinals, all []int
		whole := r.IntN(4)
		for p := range tree.Parts {
			if whole == 0 || r.IntN(8) > 0 {
				ordinals = append(ordinals, p)
			}
		}
		blocks := tree.Blocks(ordinals)
		for _, b := range blocks {
			all = append(all, b...)
			if len(b) > 1 && !tree.Has(b[0], len(b)) || b[len(b)-1]-b[0] != len(b)-1 {
				t.Errorf("%+v: block %v", tree, b)
			}
			if from, to := tree.Range(b[0] / tree.Size()); len(b) == 1 && to-from > 1 && len(ordinals) == tree.Parts {
				t.Errorf("%+v: partition %d is alone", tree, b[0])
			}
		}
		if !slices.Equal(all, ordinals) || len(ordinals) == tree.Parts && len(blocks) > 1 {
			t.Errorf("%+v: %v in blocks %v", tree, ordinals, blocks)
		}
	}
	if got := (Tree{Parts: 1000}).Blocks(numbers(256, 1000)); len(got) != 24 {
		t.Errorf("%d blocks, expected 24 groups", len(got))
	}
}

func numbers(from, to int) (list []int) {
	for n := from; n < to; n++ {
		list = append(list, n)
	}
	return list
}

// Merged partitions are those of the list from one on.
func TestMerged(t *testing.T) {
	list := []int{1, 3, 4, 9}
	for _, c := range []struct {
		first, n int
		want     []int
	}{{3, 0, []int{3}}, {3, 2, []int{3, 4}}, {1, 4, list}, {1, 5, nil}, {2, 1, nil}, {9, 2, nil}, {9, -1, nil}} {
		if got := Merged(list, c.first, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%d from %d on are %v, expected %v", c.n, c.first, got, c.want)
		}
	}
}
