package explanation

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
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
	if err := screen.WriteJSON(a.JSON, stdout, r); err != nil {
		return err
	}
	importance, dependence, errors, wrong := describe(r, "", a.Top)
	list := slices.Concat([]compare.Table{importance}, dependence, errors, []compare.Table{wrong})
	head := fmt.Sprintf("%s of %s, version %d: %s", english.Plural(r.Rows, "row", ""), a.File, r.Version, measured(r))
	if r.Unlabelled > 0 {
		head += fmt.Sprintf("\n%s rows without a label are left out", humanize.Comma(r.Unlabelled))
	}
	if r.Unknown > 0 {
		head += fmt.Sprintf("\n%s rows are left out: their labels are unknown to the model", humanize.Comma(r.Unknown))
	}
	if a.HTML != "" {
		err := screen.Write(a.HTML, stdout, func(w io.Writer) error {
			about := compare.About{Title: "What predictions depend on", Text: strings.ReplaceAll(head, "\n", "; ")}
			return compare.WriteTables(w, about, list)
		})
		if err != nil {
			return err
		}
	}
	if a.JSON == screen.StandardOutput || a.HTML == screen.StandardOutput {
		return nil
	}
	more := ""
	if n := len(r.Importance) - a.Top; n > 0 {
		more = fmt.Sprintf("and %s: --top %d\n", english.Plural(n, "less important column", ""), len(r.Importance))
	}
	_, err := io.WriteString(stdout, head+"\n"+text(list[:1])+more+text(list[1:]))
	return err
}

// The widths of tables on a screen, which fit into 80 columns.
const (
	nameWidth = 24 // characters of a name or a cell
	headWidth = 11 // characters of the head of a cell
	barWidth  = 20 // of the longest bar
	maxCells  = 4  // of a row
)

// text returns tables for people, in lines of at most 80 characters.
func text(list []compare.Table) string {
	var out strings.Builder
	for _, t := range list {
		fmt.Fprintf(&out, "\n%s\n\n", t.Caption)
		shown, most := screen.Table{Right: true}, min(len(t.Head), maxCells+1)
		row := func(width int, name string, cells []string, bar float64) {
			all := []any{screen.Cut(strings.Join(strings.Fields(name), " "), nameWidth)}
			for _, cell := range cells[:most-1] {
				all = append(all, screen.Cut(strings.Join(strings.Fields(cell), " "), width))
			}
			if t.Barred() {
				all = append(all, strings.Repeat("█", int(barWidth*max(bar, 0)+0.5)))
			}
			shown.Row(all...)
		}
		row(headWidth, t.Head[0], t.Head[1:], 0)
		for _, b := range t.Rows {
			row(nameWidth, b.Name, b.Cells, b.Length)
		}
		_ = shown.Write(&out) // a builder has no errors
		if more := len(t.Head) - most; more > 0 {
			fmt.Fprintf(&out, "and %s: --html\n", english.Plural(more, "other column", ""))
		}
	}
	return out.String()
}
