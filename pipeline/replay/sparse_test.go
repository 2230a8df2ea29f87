package replay

import (
	"testing"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// All fits of a choice of a ridge have the same rows, and the plans of other runs keep all rows.
func TestRidgePathKeepsRows(t *testing.T) {
	first := &schemas.Plan{}
	for number := range 8 {
		first.Spans = append(first.Spans, coverage.Span{Partition: number, To: 100})
	}
	for rows, want := range map[int64]int{0: 4, 2 * enoughSparse: 4, enoughSparse: 8} {
		c := &chooser{rows: rows, plans: func(int, topics.Job) (*schemas.Plan, error) { return first, nil }}
		plans := (&ridgePath{}).plans(c)
		for number := range 4 {
			plan, err := plans(number, topics.Job{})
			if err != nil || len(plan.Spans) != want || len(first.Spans) != 8 {
				t.Fatalf("%d rows, fit %d: %v, %d of %d partitions, expected %d of 8", rows, number, err, len(plan.Spans), len(first.Spans), want)
			}
		}
	}
}
