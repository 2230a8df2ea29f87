package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// One reading finds the first error of each column, wherever it is, and missing values once. A column without errors has none.
func TestTroubles(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,weight,kind,a,b,c,when,fine\n")
	for i := range 3000 {
		row := []string{fmt.Sprint(i % 2), "1", fmt.Sprint("k", i%3), fmt.Sprint(i), fmt.Sprint(i), fmt.Sprint(i), "2026-01-02", "7"}
		for at, wrong := range map[[2]int]string{{1, 2000}: "heavy", {2, 0}: fmt.Sprint("k", i), {3, 50}: "oops", {3, 60}: "late", {4, 20}: "",
			{4, 2500}: "word", {5, 30}: "", {6, 5}: "soon"} {
			if at[1] == i || at == [2]int{2, 0} {
				row[at[0]] = wrong
			}
		}
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	f := newFolder(t)
	o := Defaults()
	o.Label, o.Weight, o.Categorical = "y", "weight", []string{"kind"}
	o.Times = layout.Times{"when": {Parts: []string{"hour"}}}
	o.Train = []string{f.write(t, "rows.csv", []byte(b.String()))}
	_, _, troubles := Troubles(t.Context(), o)
	want := []string{
		`rows.csv: line 1002, column 2 ("kind"): more than 1000 different words`,
		`rows.csv: line 7, column 6 ("when"): "soon" is not`,
		`rows.csv: line 22, column 4 ("b"): an empty field: examples.missing`,
		`rows.csv: line 52, column 3 ("a"): "oops" is not a number: examples.categorical`,
		`rows.csv: line 2002, column 1 ("weight"): "heavy" is not a number: examples.weight names`,
		`rows.csv: line 2502, column 4 ("b"): "word" is not a number`,
	}
	if len(troubles) != len(want) || slices.ContainsFunc(want, func(text string) bool {
		return !slices.ContainsFunc(troubles, func(err error) bool { return strings.HasPrefix(f.text(err), text) })
	}) {
		t.Errorf("%v, expected %v", troubles, want)
	}
}
