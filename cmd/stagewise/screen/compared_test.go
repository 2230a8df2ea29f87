package screen

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/schemas"
)

// Runs that do not fit on a terminal beside each other are below each other, with the same rows; long values are cut there, and nowhere
// else.
func TestRunsFitATerminal(t *testing.T) {
	var runs []page.Compared
	for i, errorOf := range []float64{3, 1, 2, 5, 4} {
		r := page.Compared{Title: "version " + string(rune('1'+i)), State: "done", Plan: &schemas.Plan{Name: strings.Repeat("p", 30+i)},
			Report: &schemas.Report{Splits: map[string]schemas.SplitReport{"test": {Rows: 10, Error: errorOf}}}}
		runs = append(runs, r)
	}
	runs = append(runs, page.Compared{Title: "run 0123456789ab", State: "failed"})
	ranked := rank(runs, page.Order{})
	if want := []string{"3", "1", "2", "5", "4", "-"}; ranked.Name != "rank by error of the test rows" || !slices.Equal(ranked.Values, want) {
		t.Errorf("%+v, expected %v", ranked, want)
	}
	rows := append(page.Measures(runs), ranked)
	rows = append(rows, page.Differences(runs)...)
	for _, columns := range []int{20, 80, 120, 0} {
		most := 0
		if columns > 0 {
			most = maxValue
		}
		var all []int
		lists := beside(runs, rows, columns, most)
		for _, list := range lists {
			all = append(all, list...)
			var text strings.Builder
			if err := writeCompared(&text, runs, list, rows, page.Differences(runs), most); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(text.String()) {
				if width := utf8.RuneCountInString(strings.TrimRight(line, " \n")); columns > 0 && width > columns && len(list) > 1 {
					t.Errorf("%d columns: %d in %q", columns, width, line)
				}
			}
			if whole := strings.Contains(text.String(), strings.Repeat("p", 30)); columns > 0 && whole || columns == 0 && !whole {
				t.Errorf("%d columns: whether a long value is whole is %v", columns, whole)
			}
		}
		if !slices.Equal(all, []int{0, 1, 2, 3, 4, 5}) || (columns == 0) != (len(lists) == 1) {
			t.Errorf("%d columns: %v", columns, lists)
		}
	}
}
