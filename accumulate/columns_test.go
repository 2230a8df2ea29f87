package accumulate

import (
	"maps"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Columns of more pages than a segment has are counted too, in whatever order they come.
func TestColumnRowsOfManyPages(t *testing.T) {
	const columns = (maxPages + 100) * columnPage
	var first, second, all ColumnRows
	want := map[int32]uint32{}
	for i := range int32(80_000) {
		row := []int32{i * 7919 % columns, columns - 1 - i%3}
		slices.Sort(row)
		row = slices.Compact(row)
		for _, column := range row {
			want[column]++
		}
		if i%3 == 0 {
			first.Add(row)
		} else {
			second.Add(row)
		}
	}
	if len(first.pages)+len(second.pages) > 2*maxPages || len(second.unpaged) == 0 {
		t.Errorf("%d and %d pages, %d columns without", len(first.pages), len(second.pages), len(second.unpaged))
	}
	second.Pack()
	all.Merge(&second)
	first.Merge(&all)
	got := map[int32]uint32{}
	for _, n := range first.Record() {
		got[n.Column] = n.Rows
	}
	if !maps.Equal(got, want) || first.Columns() != len(want) {
		t.Errorf("%d columns, %d counted, expected %d", len(got), first.Columns(), len(want))
	}
}

// However rows are split, and whether counts went through a record, the counts are the same.
func TestColumnRowsAreAMonoid(t *testing.T) {
	rows := [][]int32{{0, 5, 1023, 1024}, {}, {5}, {5, examples.MaxColumns - 1}, {1024}}
	want := []examples.ColumnRows{{Column: 0, Rows: 1}, {Column: 5, Rows: 3}, {Column: 1023, Rows: 1}, {Column: 1024, Rows: 2},
		{Column: examples.MaxColumns - 1, Rows: 1}}
	for cut := range len(rows) + 1 {
		var first, second, whole ColumnRows
		for i, row := range rows {
			if i < cut {
				first.Add(row)
			} else {
				second.Add(row)
			}
		}
		whole.MergeRecord(second.Record())
		whole.Merge(&first)
		if got := whole.Record(); !slices.Equal(got, want) {
			t.Errorf("cut at %d: %v, expected %v", cut, got, want)
		}
	}
}
