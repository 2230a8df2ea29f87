package schemas

import (
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// An increment has rows where it has offsets. A run without a list of increments has one, everywhere.
func TestIncrementsHaveRows(t *testing.T) {
	c := &Chain{Increments: []coverage.Increment{
		{Covered: []coverage.Coverage{{Spans: coverage.Spans{{Partition: 1, From: 3, To: 4}}}, {Spans: coverage.Spans{{Partition: 2, From: 5, To: 5}}}}}, {},
	}}
	for _, test := range []struct {
		increment  int
		partitions []int
		want       bool
	}{{0, []int{0, 1}, true}, {0, []int{0, 2}, false}, {1, []int{0, 1, 2}, false}} {
		if got := c.HasRows(test.increment, test.partitions); got != test.want {
			t.Errorf("increment %d on %v: %v", test.increment, test.partitions, got)
		}
	}
	if first := (&Chain{Number: 1}); !first.HasRows(0, []int{3}) {
		t.Error("the first run has no rows")
	}
}
