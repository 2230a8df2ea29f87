package tree

import (
	"slices"
	"testing"
)

// Words are ordered by their mean residual in a direction.
func TestOrdersOfWords(t *testing.T) {
	for _, k := range []int{1, 2, 5} {
		s := sampleOf(5, 1000, 4, k, false)
		o := ordersOf(9, s, 2)
		orders := 2
		if k <= 2 {
			orders = 1
		}
		if want := []int32{0, 1, 2, 3}; k <= 2 && !slices.Equal(o.Columns, want) || len(o.Ranks) != 2*orders*Codes || o.Numbers() != 2 {
			t.Errorf("%d outputs: columns %v, %d ranks", k, o.Columns, len(o.Ranks))
		}
		if again := ordersOf(9, s, 2); !slices.Equal(again.Ranks, o.Ranks) {
			t.Error("the same seed has other orders")
		}
		for order := 2; order < len(o.Columns); order++ {
			ranks := slices.Clone(o.RanksOf(order))
			if slices.Sort(ranks); ranks[0] != 0 || ranks[255] != 255 || len(slices.Compact(ranks)) != Codes {
				t.Errorf("%d outputs: the ranks of order %d are no permutation", k, order)
			}
		}
		if k > 2 {
			if slices.Equal(o.RanksOf(2), o.RanksOf(3)) {
				t.Error("both orders of a column are the same")
			}
			continue
		}
		sums, counts := [Codes]float64{}, [Codes]float64{}
		for i := range s.rows() {
			code := s.Codes[i*4+3]
			counts[code]++
			sums[code] += float64(s.Residuals[i*k+k-1])
			if sums[code] -= float64(s.Residuals[i*k]) * float64(k-1); k == 1 {
				sums[code] -= 2 * float64(s.Residuals[i])
			}
		}
		ranks := o.RanksOf(3)
		for a := range Codes {
			for b := range a {
				x, y := sums[a]/(counts[a]/4+10), sums[b]/(counts[b]/4+10)
				if x < y && ranks[a] > ranks[b] || x >= y && ranks[a] < ranks[b] {
					t.Fatalf("%d outputs: codes %d and %d of means %v and %v have ranks %d and %d", k, a, b, x, y, ranks[a], ranks[b])
				}
			}
		}
	}
}
