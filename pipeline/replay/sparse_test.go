package replay

import (
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// All fits of a choice of a ridge have the same rows, and the plans of other runs keep all rows.
func TestFitsHaveEnoughRows(t *testing.T) {
	var all coverage.Spans
	for number := range 8 {
		all = append(all, coverage.Span{Partition: number, To: 100})
	}
	for rows, want := range map[int64]int{0: 4, 2 * enoughSparse: 4, enoughSparse: 8} {
		c := &chooser{rows: rows}
		spans := c.enough(all)
		if len(spans) != want || len(all) != 8 {
			t.Fatalf("%d rows: %d of %d partitions, expected %d of 8", rows, len(spans), len(all), want)
		}
	}
}
