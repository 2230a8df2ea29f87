package schemas

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Increments that are merged, over several pairs and in any order, have the place of their first. Those of other weights stay apart.
func TestTermsPlaces(t *testing.T) {
	c := &Chain{Merge: [][2]int{{15, 16}, {12, 13}, {13, 15}, {11, 17}, {18, 99}}}
	for i, weight := range []float64{1, 1, 1, 1, 1, 1, 0.5, 1} {
		spans := coverage.Spans{{Partition: i % 2, From: int64(i), To: int64(i + 1)}}
		if i == 4 {
			spans = nil
		}
		c.Increments = append(c.Increments, coverage.Increment{Number: 11 + i, Weight: weight, Covered: []coverage.Coverage{{Spans: spans}}})
	}
	places := c.TermsPlaces()
	if want := []int{0, 1, 1, 3, 1, 1, 6, 7}; !slices.Equal(places, want) {
		t.Errorf("places %v, expected %v", places, want)
	}
	for partition, want := range [][]int{{0, 1, 6}, {1, 3, 7}, nil} {
		if on := c.TermsOn(partition, places); !slices.Equal(on, want) {
			t.Errorf("partition %d has %v, expected %v", partition, on, want)
		}
	}
	first := &Chain{Number: 1}
	if places := first.TermsPlaces(); !slices.Equal(first.TermsOn(3, places), []int{0}) {
		t.Errorf("the first run has the places %v", places)
	}
}
