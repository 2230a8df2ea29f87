package explanation

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/explain"
)

// About says what is explained, and where it is written.
type About struct {
	File       string // of the rows
	Top        int    // columns that are shown
	JSON, HTML string // files; "": none
}

// Write writes the files that were asked for, and the report for people, unless a file is the standard output.
func Write(stdout io.Writer, r *explain.Report, a About) error {
	if err := artifact.WriteJSON(a.JSON, stdout, r); err != nil {
		return err
	}
	if a.HTML != "" {
		if err := artifact.Write(a.HTML, stdout, func(w io.Writer) error { return writePage(w, r, a) }); err != nil {
			return err
		}
	}
	if a.JSON == artifact.StandardOutput || a.HTML == artifact.StandardOutput {
		return nil
	}
	return writeText(stdout, r, a)
}

// writePage writes the report as a page.
func writePage(w io.Writer, r *explain.Report, a About) error {
	text := fmt.Sprintf("Version %d, %s rows of %s: %s.", r.Version, humanize.Comma(int64(r.Rows)), a.File,
		measured(r.Measures, r.Task == regression))
	if r.Unlabelled > 0 {
		text += fmt.Sprintf(" %d rows without a label are left out.", r.Unlabelled)
	}
	if r.Unknown > 0 {
		text += fmt.Sprintf(" %d rows have labels unknown to the model, and are left out.", r.Unknown)
	}
	importance := tables(r, fmt.Sprintf("rows of %s", a.File), a.Top)
	importance[0].Title = "importance of columns"
	list := slices.Concat(importance[:1], dependence(r), importance[1:], []compare.Table{mostWrong(r)})
	return compare.WriteTables(w, compare.About{Title: "What predictions depend on", Text: text}, list)
}

// dependence returns a table of the partial dependence on each column.
func dependence(r *explain.Report) (list []compare.Table) {
	what := "Mean probability of each label"
	if r.Task == regression {
		what = "Mean prediction"
	}
	for i, c := range r.Dependence {
		t := compare.Table{Caption: what + " if all rows had this value of " + c.Name, Head: append([]string{c.Name}, r.Labels...)}
		if i == 0 {
			t.Title = "partial dependence"
		}
		for _, p := range c.Points {
			t.Rows = append(t.Rows, compare.Bar{Name: p.Value, Cells: numbers(p.Mean)})
		}
		list = append(list, t)
	}
	return list
}

// mostWrong returns a table of the rows with the largest loss.
func mostWrong(r *explain.Report) compare.Table {
	t := compare.Table{Title: "rows with the largest loss",
		Caption: "The highest loss first, also if all are predicted right. Rows count from 0",
		Head:    []string{"row", "label", "predicted", "probability of the label", "log loss"}}
	if r.Task == regression {
		t.Head = append([]string{"row"}, r.Labels...)
		for _, name := range r.Labels {
			t.Head = append(t.Head, name+", predicted")
		}
	}
	for _, w := range r.Wrong {
		cells := []string{w.Label, w.Predicted, number(w.Probability), number(w.Loss)}
		if r.Task == regression {
			cells = numbers(slices.Concat(w.Numbers, w.Predictions))
		}
		t.Rows = append(t.Rows, compare.Bar{Name: strconv.FormatInt(w.Row, 10), Cells: cells})
	}
	return t
}

// numbers writes measures.
func numbers(values []float64) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = number(v)
	}
	return texts
}
